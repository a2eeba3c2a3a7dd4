// Ops that only copy: `clone`, and `_to_copy`, which may convert.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

bool is_copy(const ir::Graph& graph, const ir::Node& node);

// Rewrites `node` to a copy of `source` in canonical form, converted to the result's element type. Returns
// false and changes nothing if such a copy would not have the layout of the result's type.
bool spell_copy(const ir::Graph& graph, ir::Node& node, ir::ValueId source);

}  // namespace tenon::passes
