// Ops that only copy: `clone`, and `_to_copy`, which may convert.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

bool is_copy(const ir::Graph& graph, const ir::Node& node);

// Makes `node` say, in the one spelling, that its result is `source` converted to the result's element
// type. False, and nothing changed, where that would not give the layout of the result's type.
bool spell_copy(const ir::Graph& graph, ir::Node& node, ir::ValueId source);

}  // namespace tenon::passes
