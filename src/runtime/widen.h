// The same graph in f64: the truth that results in narrower types are measured against.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/graph/graph.h"

namespace tenon::runtime {

ir::Graph widen(ir::Graph graph);
// Inputs of a graph as inputs of its wide form: copies of the same layout.
std::vector<at::Tensor> widen(const ir::Graph& wide, const std::vector<at::Tensor>& inputs);

// A wide graph in which every input and every result is off by about a unit in the last place of the type that
// it has in the narrow graph: how far off any right way of computing it may be. The noise is its last inputs,
// with a unit each; odd runs leave some of it out, so that not all comparisons of equal values go wrong.
ir::Graph add_noise(ir::Graph wide, const ir::Graph& narrow, std::vector<double>& units);
std::vector<at::Tensor> with_noise(const ir::Graph& noisy, const std::vector<double>& units, std::vector<at::Tensor> inputs, size_t run,
                                   at::Generator& generator);

}  // namespace tenon::runtime
