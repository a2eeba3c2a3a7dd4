#include "tenon/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <bit>
#include <cmath>
#include <functional>
#include <optional>

#include "base/error.h"

namespace tenon {
namespace {

using detail::HostStep;
using torch::optim::Optimizer;

template <class State>
State* state_of(Optimizer& optimizer, const at::Tensor& parameter) {
  auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer.state().end() ? nullptr : static_cast<State*>(found->second.get());
}

// Calls f with the options and the parameters of each group.
template <class Settings, class F>
void for_each_group(Optimizer& optimizer, F&& f) {
  for (auto& group : optimizer.param_groups()) f(static_cast<Settings&>(group.options()), group.params());
}

// Adam and AdamW. The expressions are those of libtorch, so the constants have the same bits.
template <class Settings, class State>
HostStep adam_step(Optimizer& optimizer) {
  HostStep out;
  for_each_group<Settings>(optimizer, [&](const Settings& settings, const std::vector<at::Tensor>& parameters) {
    for (const at::Tensor& parameter : parameters) {
      State* state = state_of<State>(optimizer, parameter);
      if (!state) continue;
      size_t index = out.parameters.size();
      out.parameters.push_back(parameter);
      out.counts.push_back(&state->step());
      int64_t step = state->step() + 1;
      auto [beta1, beta2] = settings.betas();
      double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
      double step_size = settings.lr() / correction1;
      out.constants.push_back({"aten::mul_", index, 1 - settings.lr() * settings.weight_decay()});
      out.constants.push_back({nullptr, index, std::sqrt(correction2)});
      out.constants.push_back({"aten::addcdiv_", index, -step_size});
    }
  });
  return out;
}

HostStep sgd_step(Optimizer& optimizer) {
  HostStep out;
  for_each_group<torch::optim::SGDOptions>(optimizer, [&](const auto& settings, const std::vector<at::Tensor>& parameters) {
    for (const at::Tensor& parameter : parameters) {
      out.constants.push_back({"aten::add_", out.parameters.size(), -1 * settings.lr()});
      out.parameters.push_back(parameter);
      out.counts.push_back(nullptr);
    }
  });
  return out;
}

HostStep rmsprop_step(Optimizer& optimizer) {
  HostStep out;
  for_each_group<torch::optim::RMSpropOptions>(optimizer, [&](const auto& settings, const std::vector<at::Tensor>& parameters) {
    for (const at::Tensor& parameter : parameters) {
      auto* state = state_of<torch::optim::RMSpropParamState>(optimizer, parameter);
      if (!state) continue;
      for (const char* op : {"aten::addcdiv_", "aten::add_"}) out.constants.push_back({op, out.parameters.size(), -settings.lr()});
      out.parameters.push_back(parameter);
      out.counts.push_back(&state->step());
    }
  });
  return out;
}

uint64_t bits(double number) { return std::bit_cast<uint64_t>(number); }
uint64_t mix(uint64_t hash, uint64_t value) { return (hash ^ value) * 0x9E3779B97F4A7C15u + (hash >> 29); }

// A number that changes with everything that a step depends on, except counts of steps and learning rates.
uint64_t digest(Optimizer& optimizer) {
  uint64_t hash = optimizer.param_groups().size();
  auto add = [&](std::initializer_list<uint64_t> values) {
    for (uint64_t value : values) hash = mix(hash, value);
  };
  auto add_adam = [&](const auto& s) {
    add({bits(std::get<0>(s.betas())), bits(std::get<1>(s.betas())), bits(s.eps()), bits(s.weight_decay()), s.amsgrad()});
  };
  for (auto& group : optimizer.param_groups()) {
    add({group.params().size()});
    for (const at::Tensor& parameter : group.params()) {
      auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      const void* state = found == optimizer.state().end() ? nullptr : found->second.get();
      add({std::bit_cast<uint64_t>(parameter.unsafeGetTensorImpl()), std::bit_cast<uint64_t>(state)});
    }
    if (auto* s = dynamic_cast<torch::optim::AdamWOptions*>(&group.options())) add_adam(*s);
    else if (auto* s = dynamic_cast<torch::optim::AdamOptions*>(&group.options())) add_adam(*s);
    else if (auto* s = dynamic_cast<torch::optim::SGDOptions*>(&group.options()))
      add({bits(s->momentum()), bits(s->dampening()), bits(s->weight_decay()), s->nesterov()});
    else if (auto* s = dynamic_cast<torch::optim::RMSpropOptions*>(&group.options()))
      add({bits(s->alpha()), bits(s->eps()), bits(s->weight_decay()), bits(s->momentum()), s->centered()});
  }
  return hash;
}

}  // namespace

Watched watch(Optimizer& optimizer) {
  std::function<HostStep()> step;
  if (dynamic_cast<torch::optim::AdamW*>(&optimizer))
    step = [&optimizer] { return adam_step<torch::optim::AdamWOptions, torch::optim::AdamWParamState>(optimizer); };
  else if (dynamic_cast<torch::optim::Adam*>(&optimizer))
    step = [&optimizer] { return adam_step<torch::optim::AdamOptions, torch::optim::AdamParamState>(optimizer); };
  else if (dynamic_cast<torch::optim::SGD*>(&optimizer)) step = [&optimizer] { return sgd_step(optimizer); };
  else if (dynamic_cast<torch::optim::RMSprop*>(&optimizer)) step = [&optimizer] { return rmsprop_step(optimizer); };
  else
    throw UserError(ErrorCode::config,
                    "tenon::watch takes optimizers of the classes SGD, Adam, AdamW and RMSprop; compile the step of another one with "
                    "Trust::checked");
  return Watched::listed([&optimizer, step](detail::WatchedState& out) {
    for (auto& group : optimizer.param_groups())
      for (const at::Tensor& parameter : group.params()) out.tensors.emplace_back("optimized", parameter);
    out.numbers.emplace_back("optimizer", [&optimizer] { return digest(optimizer); });
    out.optimizers.push_back(step);
  });
}

MasterWeights::MasterWeights(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
  for (const at::Tensor& parameter : parameters_) {
    if (!parameter.is_floating_point())
      throw UserError(ErrorCode::config, std::string("MasterWeights takes floating-point parameters, but one is ") +
                                             at::toString(parameter.scalar_type()) + "; leave it out.");
    bool is_half = parameter.scalar_type() == at::kBFloat16 || parameter.scalar_type() == at::kHalf;
    masters_.push_back(is_half ? parameter.detach().to(at::kFloat).requires_grad_(parameter.requires_grad()) : parameter);
  }
}

void MasterWeights::take_gradients() {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (masters_[i].is_same(parameters_[i])) continue;
    at::Tensor& gradient = parameters_[i].mutable_grad();
    masters_[i].mutable_grad() = gradient.defined() ? gradient.to(at::kFloat) : at::Tensor();
    gradient.reset();
  }
}

void MasterWeights::update_parameters() {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (masters_[i].is_same(parameters_[i]) || !masters_[i].grad().defined()) continue;
    parameters_[i].copy_(masters_[i]);
    masters_[i].mutable_grad().reset();
  }
}

namespace detail {

// The ops are those of torch::nn::utils::clip_grad_norm_, so the results are, too.
at::Tensor clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm) {
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients, norms;
  for (const at::Tensor& parameter : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad().detach());
  if (gradients.empty()) return at::zeros({});
  for (const at::Tensor& gradient : gradients) norms.push_back(gradient.norm(2.0));
  at::Tensor total = norms.size() == 1 ? norms[0] : at::stack(norms).norm(2.0);
  at::Tensor scale = at::clamp(max_norm / (total + 1e-6), std::nullopt, 1.0);
  for (at::Tensor& gradient : gradients) gradient.mul_(scale);
  return total;
}

}  // namespace detail
}  // namespace tenon
