#include "train/optimizer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace tenon::train {
namespace {

using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;

AdamWOptions& options_of(torch::optim::OptimizerParamGroup& group) { return static_cast<AdamWOptions&>(group.options()); }

}  // namespace

bool decays(const std::string& name) {
  std::string lower = lower_case(name);
  for (const char* part : {"bias", "layernorm", "rmsnorm"})
    if (lower.find(part) != std::string::npos) return false;
  for (size_t begin = 0; begin <= lower.size();) {
    size_t end = std::min(lower.find('.', begin), lower.size());
    std::string segment = lower.substr(begin, end - begin);
    if (segment == "norm" || segment.ends_with("_norm")) return false;
    begin = end + 1;
  }
  return true;
}

TaskOptimizer::TaskOptimizer(const TrainingTask& task, const TrainingArguments& arguments) {
  std::vector<at::Tensor> decayed, others;
  for (const NamedTensor& parameter : task.parameters) {
    if (!parameter.value().requires_grad()) continue;
    bool is_excluded = std::find(task.without_decay.begin(), task.without_decay.end(), parameter.key()) != task.without_decay.end();
    (decays(parameter.key()) && !is_excluded ? decayed : others).push_back(parameter.value());
    parameters_.push_back(parameter);
    tensors_.push_back(parameter.value());
  }
  if (tensors_.empty())
    throw UserError(ErrorCode::config,
                    "no parameter requires gradients, so there is nothing to train. Call requires_grad_() on parameters.");
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed);
  groups.emplace_back(others);
  AdamWOptions options(arguments.learning_rate);
  options.betas({arguments.adam_beta1, arguments.adam_beta2}).eps(arguments.adam_epsilon).weight_decay(0);
  adamw_ = std::make_unique<torch::optim::AdamW>(groups, options);
  // Set afterwards, because the constructor replaces values of a group that equal the defaults of AdamWOptions.
  options_of(adamw_->param_groups()[0]).weight_decay(arguments.weight_decay);
}

TaskOptimizer::~TaskOptimizer() = default;

double TaskOptimizer::clip_gradients(double max_norm) {
  return torch::nn::utils::clip_grad_norm_(tensors_, max_norm > 0 ? max_norm : std::numeric_limits<double>::infinity());
}

void TaskOptimizer::step(double learning_rate) {
  for (auto& group : adamw_->param_groups()) options_of(group).lr(learning_rate);
  adamw_->step();
}

void TaskOptimizer::clear_gradients() { adamw_->zero_grad(); }

TensorsByName TaskOptimizer::state() const {
  TensorsByName out;
  for (const NamedTensor& parameter : parameters_) {
    auto found = adamw_->state().find(parameter.value().unsafeGetTensorImpl());
    if (found == adamw_->state().end()) continue;
    const auto& state = static_cast<const AdamWParamState&>(*found->second);
    out[parameter.key() + ".step"] = at::full({}, state.step(), at::kLong);
    out[parameter.key() + ".exp_avg"] = state.exp_avg();
    out[parameter.key() + ".exp_avg_sq"] = state.exp_avg_sq();
  }
  return out;
}

void TaskOptimizer::set_state(const TensorsByName& state, const std::string& source) {
  for (const NamedTensor& parameter : parameters_) {
    if (!state.contains(parameter.key() + ".step")) continue;
    at::Tensor step = at::full({}, 0, at::kLong);
    at::Tensor average = at::zeros_like(parameter.value().detach()), square = at::zeros_like(average);
    copy_tensor(state, parameter.key() + ".step", source, step);
    copy_tensor(state, parameter.key() + ".exp_avg", source, average);
    copy_tensor(state, parameter.key() + ".exp_avg_sq", source, square);
    auto restored = std::make_unique<AdamWParamState>();
    restored->step(step.item<int64_t>()).exp_avg(average).exp_avg_sq(square);
    adamw_->state()[parameter.value().unsafeGetTensorImpl()] = std::move(restored);
  }
}

}  // namespace tenon::train
