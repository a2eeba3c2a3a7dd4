// Settings of libtorch's that are changed for the length of a call, on this thread only.
#pragma once

#include <torch/csrc/jit/python/update_graph_executor_opt.h>

namespace tenon::driver {

// TorchScript would profile, specialise and fuse behind the dispatcher's back.
class PlainTorchScript {
 public:
  PlainTorchScript() : optimize_(torch::jit::getGraphExecutorOptimize()) { torch::jit::setGraphExecutorOptimize(false); }
  ~PlainTorchScript() { torch::jit::setGraphExecutorOptimize(optimize_); }

 private:
  bool optimize_;
};

}  // namespace tenon::driver
