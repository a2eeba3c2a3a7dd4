// Computes what is constant: a tensor all of whose elements are one known number, made in whatever
// way, becomes one `aten::full`. Drops ops that change nothing: x * 1, x / 1, x - 0, copies.
//
// Only where every bit stays. x + 0.0 is no such op: it turns -0.0 into 0.0 (x + -0.0 is one). Nor is
// x * 1 of bf16 or f16, where ATen gives NaNs other bits. Numbers that each call brings anew are
// not constants.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns how many nodes changed or went.
size_t fold(ir::Graph& graph);

}  // namespace tenon::passes
