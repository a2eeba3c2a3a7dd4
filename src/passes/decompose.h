// Replaces ops by several others that return the same bits and can be fused into kernels: `stack`,
// `repeat` and `pixel_shuffle` become views and one copy; `argmax` becomes reductions; the backward of a
// layer norm, which reduces over different dimensions, becomes one op per gradient.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns the number of replaced ops.
size_t decompose(ir::Graph& graph);

}  // namespace tenon::passes
