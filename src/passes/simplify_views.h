// Makes chains of views short: a view that looks as its origin does goes, whatever lies between;
// two reshapes, permutations or expansions become one, and `as_strided` starts from the beginning
// of the chain. Views of different kinds stay apart: each says what the elements mean, which one
// `as_strided` for both would hide, and its offset may not be the same at the next call of an input.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns how many views changed or went.
size_t simplify_views(ir::Graph& graph);

}  // namespace tenon::passes
