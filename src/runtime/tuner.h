// The longer trial: all of a graph runs again and again, its steps in one way after the other, each where it stands: with the
// weights as cold and the caches as full as they will be. Steps that are alike are judged together.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "runtime/interpreter.h"

namespace tenon::runtime {

// Whether a graph may run more than once for one call.
bool is_repeatable(const ir::Graph& graph);

// Takes at most about this many seconds; `progress` is told which part of them is over.
void tune(const Interpreter& interpreter, const std::vector<at::Tensor>& inputs, c10::ArrayRef<double> scalars, double seconds,
          const std::function<void(double)>& progress);

}  // namespace tenon::runtime
