// Shortens chains of views: a view with the type of an ancestor is replaced by it; two reshapes,
// permutations or expansions become one; `as_strided` starts from the beginning of the chain. Views of
// different kinds stay: one `as_strided` for both would hide their meaning, and the offset of an input
// may change between calls.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns the number of changed and removed views.
size_t simplify_views(ir::Graph& graph);

}  // namespace tenon::passes
