// Settings of libtorch's that are changed for the length of a call.
#pragma once

#include <torch/csrc/jit/python/update_graph_executor_opt.h>
#include <torch/csrc/jit/runtime/profiling_graph_executor_impl.h>

namespace tenon::driver {

// TorchScript would profile, specialise and fuse behind the dispatcher's back.
class PlainTorchScript {
 public:
  PlainTorchScript() : profiling_(torch::jit::getProfilingMode().exchange(false)), optimize_(torch::jit::getGraphExecutorOptimize()) {
    torch::jit::setGraphExecutorOptimize(false);
  }
  ~PlainTorchScript() {
    torch::jit::setGraphExecutorOptimize(optimize_);
    torch::jit::getProfilingMode() = profiling_;
  }

 private:
  bool profiling_, optimize_;
};

}  // namespace tenon::driver
