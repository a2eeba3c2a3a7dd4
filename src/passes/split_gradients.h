// The backward of a layer norm computes up to three gradients, along different dimensions; a kernel
// can compute one. Each gets an op of its own: the same one, told by its mask to leave the others out.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

size_t split_gradients(ir::Graph& graph);

}  // namespace tenon::passes
