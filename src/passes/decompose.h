// Ops as several others that give the same bits and can become part of kernels: `stack`, `repeat` and
// `pixel_shuffle` as views and one copy; the backward of a layer norm, which computes up to three
// gradients along different dimensions, as one op a gradient.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns how many ops were taken apart.
size_t decompose(ir::Graph& graph);

}  // namespace tenon::passes
