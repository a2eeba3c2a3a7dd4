// An optimizer whose state is divided over the processes (ZeRO stage 1). Each process updates an equal range of all parameters and gets
// the other ranges from the others, so its state is 1/N of the whole, whatever the sizes of single parameters are.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <vector>

#include "dist/process_group.h"

namespace tenon::dist {

class OptimizerShards {
 public:
  // Moves the parameters of each group into one memory per element type, and gives the optimizer this process's range of it in their
  // place. The optimizer must update element by element, and must not have a state yet. Throws UserError(config) otherwise.
  OptimizerShards(torch::optim::Optimizer& optimizer, std::shared_ptr<ProcessGroup> group);

  // Gives the optimizer the gradients of its range. A parameter without a gradient counts as one of zeros.
  void set_gradients();
  // Gets the parameters that the others have updated.
  void gather();
  void clear_gradients();

 private:
  struct Shard {
    std::vector<at::Tensor> parameters;
    at::Tensor flat, own;  // All parameters, and this process's range, in the same memory.
    int64_t first = 0;     // Index of the first element of the range.
  };

  Shard make_shard(const std::vector<at::Tensor>& parameters) const;

  std::shared_ptr<ProcessGroup> group_;
  std::vector<Shard> shards_;
};

}  // namespace tenon::dist
