// AdamW over the parameters of a task, in the two groups of Transformers: with weight decay and without.
#pragma once

#include <tenon/trainer.h>

#include <memory>
#include <string>
#include <vector>

#include "train/tensor_file.h"

namespace torch::optim {
class AdamW;
}

namespace tenon::train {

// Whether weight decay applies to a parameter of this name. It does not apply to biases and norms.
bool decays(const std::string& name);

class TaskOptimizer {
 public:
  // Trains the parameters that require gradients. Throws UserError(config) if there are none.
  TaskOptimizer(const TrainingTask& task, const TrainingArguments& arguments);
  ~TaskOptimizer();

  // Clips the gradients to this norm if it is positive. Returns the norm that they had.
  double clip_gradients(double max_norm);
  void step(double learning_rate);
  void clear_gradients();

  // The moments and step counts by parameter, for a checkpoint. Parameters without a gradient so far have none.
  TensorsByName state() const;
  // Replaces the state. Throws UserError(format) that names `source` if it does not belong to these parameters.
  void set_state(const TensorsByName& state, const std::string& source);

 private:
  std::vector<NamedTensor> parameters_;
  std::vector<at::Tensor> tensors_;  // The same parameters without names.
  std::unique_ptr<torch::optim::AdamW> adamw_;
};

}  // namespace tenon::train
