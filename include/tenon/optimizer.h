// tenon::compile for optimizers of libtorch.
//
//   torch::optim::AdamW optimizer(model->parameters());
//   auto step = tenon::compile(optimizer);
//   step();                                  // instead of optimizer.step()
#pragma once

#include <utility>

#include <tenon/compile.h>

namespace tenon {

namespace detail {

// Calls an optimizer's step.
template <class O>
struct OptimizerStep {
  O* optimizer;
  auto operator()() { return optimizer->step(); }
};

}  // namespace detail

// Compiles the step of an optimizer of libtorch: one graph updates all parameters. The optimizer must outlive the result. Its options
// (learning rate, momentum) may be changed between steps. Throws UserError(config) unless `trust` is `checked`, because optimizers count
// their steps on the host.
template <detail::IsOptimizer O>
auto compile(O& optimizer, Options options = {}) {
  if (options.trust != Trust::checked)
    throw UserError(ErrorCode::config, "tenon::compile(optimizer) needs Trust::checked: an optimizer counts its steps on the host.");
  return Compiled<detail::OptimizerStep<O>>({&optimizer}, std::move(options));
}

}  // namespace tenon
