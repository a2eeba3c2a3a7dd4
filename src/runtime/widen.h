// The same graph in f64: the reference for results in narrower types.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/graph/graph.h"

namespace tenon::runtime {

ir::Graph widen(ir::Graph graph);
// Converts the inputs of a graph to those of its wide form; layouts stay the same. `symbols` are the values of the graph's symbols.
std::vector<at::Tensor> widen(const ir::Graph& wide, const ir::SymbolValues& symbols, const std::vector<at::Tensor>& inputs);

// A wide graph in which every input and every result has a relative error of about one ulp of its type in the narrow graph. Its
// error is what any correct implementation may have. The noise factors are the last inputs, with one entry of `units` each. Odd runs
// have no noise on some of them, so that not every comparison of equal values changes.
ir::Graph add_noise(ir::Graph wide, const ir::Graph& narrow, std::vector<double>& units);
std::vector<at::Tensor> with_noise(const ir::Graph& noisy, const ir::SymbolValues& symbols, const std::vector<double>& units,
                                   std::vector<at::Tensor> inputs, size_t run, at::Generator& generator);

}  // namespace tenon::runtime
