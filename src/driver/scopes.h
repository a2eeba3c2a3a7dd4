// Settings of libtorch that are changed for the duration of a call, on this thread only.
#pragma once

#include <torch/csrc/jit/python/update_graph_executor_opt.h>

namespace tenon::driver {

// Turns off TorchScript's optimizing executor, whose fused kernels the dispatcher does not see.
class PlainTorchScript {
 public:
  PlainTorchScript() : optimize_(torch::jit::getGraphExecutorOptimize()) { torch::jit::setGraphExecutorOptimize(false); }
  ~PlainTorchScript() { torch::jit::setGraphExecutorOptimize(optimize_); }

 private:
  bool optimize_;
};

}  // namespace tenon::driver
