// Autotuning of a graph. The whole graph runs repeatedly with different alternatives of its steps (forms of weights, versions of
// kernels), so that each is timed with realistic cache contents. Equal steps share one choice.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "runtime/interpreter.h"

namespace tenon::runtime {

// Whether a graph may run more than once per call: it has no side effects and draws no random numbers.
bool is_repeatable(const ir::Graph& graph);

// Takes at most about `seconds`; `progress` is called with the fraction that is done.
void tune(const Interpreter& interpreter, const std::vector<at::Tensor>& inputs, c10::ArrayRef<double> scalars, double seconds,
          const std::function<void(double)>& progress);

}  // namespace tenon::runtime
