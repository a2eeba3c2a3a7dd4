// tenon::compile for optimizers of libtorch.
//
//   torch::optim::AdamW optimizer(model->parameters());
//   auto step = tenon::compile(optimizer);
//   step();                                  // instead of optimizer.step()
//
// With clipping, and with float copies of weights in bf16:
//
//   tenon::MasterWeights weights(model->parameters());
//   torch::optim::AdamW optimizer(weights.masters());
//   auto step = tenon::compile(optimizer, tenon::StepOptions{.max_grad_norm = 1.0, .weights = &weights});
//   model->zero_grad(), loss().backward(), step();
#pragma once

#include <utility>
#include <vector>

#include <tenon/compile.h>

namespace torch::optim {
class Optimizer;
}

namespace tenon {

// For Options::watch of a `pure` function that calls the step of this optimizer. Its count of steps and its learning rate are data then:
// they may change from call to call, and calls count on. SGD, Adam, AdamW and RMSprop; throws UserError(config) for others. The optimizer
// must outlive the compiled function.
TENON_API Watched watch(torch::optim::Optimizer& optimizer);

// Float copies of parameters in bf16 or f16. A small update of a half is lost in rounding; in float it is kept. The optimizer updates
// the copies, and a compiled step rounds them to the parameters. Calls may not be made from several threads at once.
class TENON_API MasterWeights {
 public:
  // Copies each parameter that is not float. Throws UserError(config) if one is not floating-point.
  explicit MasterWeights(std::vector<at::Tensor> parameters);

  // What the optimizer gets: the copies, and the parameters that are float themselves.
  const std::vector<at::Tensor>& masters() const { return masters_; }

  // Moves the gradients of the parameters to the copies. The parameters have none afterwards, since zero_grad() of the optimizer does not
  // reach them.
  void take_gradients();
  // Rounds the copies to the parameters.
  void update_parameters();

 private:
  std::vector<at::Tensor> parameters_, masters_;
};

// What a compiled step does besides the optimizer's own.
struct StepOptions {
  // Scales the gradients so that their total norm is at most this number, like torch::nn::utils::clip_grad_norm_. 0: no clipping.
  double max_grad_norm = 0;
  // If the optimizer was made with the copies of a MasterWeights, that object. It must outlive the compiled step.
  MasterWeights* weights = nullptr;
};

namespace detail {

// Clips gradients and returns the total norm that they had, as a tensor: unlike clip_grad_norm_ it reads nothing on the host.
TENON_API at::Tensor clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm);

// Calls an optimizer's step.
template <class O>
struct OptimizerStep {
  O* optimizer;
  StepOptions options;
  at::Tensor operator()() {
    if (options.weights) options.weights->take_gradients();
    at::Tensor norm;
    if (options.max_grad_norm > 0) {
      std::vector<at::Tensor> parameters;
      for (const auto& group : optimizer->param_groups()) parameters.insert(parameters.end(), group.params().begin(), group.params().end());
      norm = clip_gradients(parameters, options.max_grad_norm);
    }
    optimizer->step();
    if (options.weights) options.weights->update_parameters();
    return norm;
  }
};

}  // namespace detail

// Compiles the step of an optimizer of libtorch: one graph clips the gradients and updates all parameters. A call returns the total norm
// of the gradients before they were clipped, or an undefined tensor if they are not clipped. The optimizer must outlive the result. Its
// options (learning rate, momentum) may be changed between steps. Throws UserError(config) unless `trust` is `checked`, because
// optimizers count their steps on the host.
template <detail::IsOptimizer O>
auto compile(O& optimizer, StepOptions step, Options options = {}) {
  if (options.trust != Trust::checked)
    throw UserError(ErrorCode::config, "tenon::compile(optimizer) needs Trust::checked: an optimizer counts its steps on the host.");
  return Compiled<detail::OptimizerStep<O>>({&optimizer, step}, std::move(options));
}

template <detail::IsOptimizer O>
auto compile(O& optimizer, Options options = {}) {
  return compile(optimizer, StepOptions(), std::move(options));
}

}  // namespace tenon
