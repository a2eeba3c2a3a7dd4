// The same graph in f64: the truth that results in narrower types are measured against.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/graph/graph.h"

namespace tenon::runtime {

ir::Graph widen(ir::Graph graph);
// Inputs of a graph as inputs of its wide form: copies of the same layout.
std::vector<at::Tensor> widen(const ir::Graph& wide, const std::vector<at::Tensor>& inputs);

}  // namespace tenon::runtime
