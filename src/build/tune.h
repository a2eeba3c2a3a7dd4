// Autotuning with a progress line.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <vector>

#include "runtime/interpreter.h"

namespace tenon::build {

// Times all versions of a graph's kernels and products and selects the fastest ones. The graph must be safe to run more than once.
void tune(const runtime::Interpreter& interpreter, const std::vector<at::Tensor>& inputs, c10::ArrayRef<double> scalars, double seconds);

}  // namespace tenon::build
