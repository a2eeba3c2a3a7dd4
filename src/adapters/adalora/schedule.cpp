#include "adapters/adalora/schedule.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/TensorOperators.h>

#include "base/error.h"

namespace tenon::adapters {

namespace {

constexpr const char *kA = ".lora_A", *kE = ".lora_E", *kB = ".lora_B";

bool is_factor(const std::string& name) { return name.ends_with(kA) || name.ends_with(kE) || name.ends_with(kB); }
std::string path_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

}  // namespace

void Schedule::advance(const Parameters& parameters, int64_t step) {
  at::NoGradGuard no_grad;
  int64_t last = config_.total_step - config_.tfinal;
  if (step < last) update_sensitivity(parameters);
  bool is_due = step > config_.tinit && step % config_.delta_t == 0;
  if (step < last && !is_due) return;
  if (step <= last) choose(step);
  if (step == last) sensitivity_.clear();
  for (const auto& [name, tensor] : parameters)
    if (auto kept = kept_.find(path_of(name)); kept != kept_.end() && name.ends_with(kE))
      for (size_t i = 0; i < kept->second.size(); ++i)
        if (!kept->second[i]) at::Tensor(tensor.select(0, static_cast<int64_t>(i))).zero_();
}

void Schedule::update_sensitivity(const Parameters& parameters) {
  for (const auto& [name, tensor] : parameters) {
    if (!is_factor(name)) continue;
    if (!tensor.grad().defined())
      throw UserError(ErrorCode::adapter,
                      name + " has no gradient. Call allocate_ranks() after backward() and before gradients are cleared.");
    at::Tensor now = (tensor * tensor.grad()).abs();
    Sensitivity& sensitivity = sensitivity_[name];
    if (!sensitivity.mean.defined()) sensitivity = {at::zeros_like(now), at::zeros_like(now)};
    sensitivity.mean = sensitivity.mean * config_.beta1 + now * (1 - config_.beta1);
    sensitivity.uncertainty = sensitivity.uncertainty * config_.beta2 + (now - sensitivity.mean).abs() * (1 - config_.beta2);
  }
}

int64_t Schedule::budget(int64_t step, int64_t all, int64_t layers) const {
  if (step <= config_.tinit) return all;
  int64_t least = config_.target_rank * layers, steps = config_.total_step - config_.tfinal - config_.tinit;
  double fraction = 1 - static_cast<double>(step - config_.tinit) / static_cast<double>(steps);
  return static_cast<int64_t>(static_cast<double>(all - least) * (fraction * fraction * fraction) + static_cast<double>(least));
}

void Schedule::choose(int64_t step) {
  // The importance of a rank is the sensitivity of its factor plus the means over its row of A and its column of B.
  std::map<std::string, at::Tensor> by_layer;
  for (const auto& [name, sensitivity] : sensitivity_) {
    at::Tensor score = sensitivity.mean * sensitivity.uncertainty;
    if (name.ends_with(kA)) score = score.mean(1);
    if (name.ends_with(kB)) score = score.mean(0);
    at::Tensor& sum = by_layer[path_of(name)];
    sum = sum.defined() ? sum + score.flatten() : score.flatten();
  }
  if (by_layer.empty())
    throw UserError(ErrorCode::adapter,
                    "there are no gradients to choose ranks by. Call allocate_ranks() after every step, from the first one on.");
  std::vector<at::Tensor> all;
  for (const auto& [path, scores] : by_layer) all.push_back(scores);
  at::Tensor scores = at::cat(all);
  int64_t pruned = scores.numel() - budget(step, scores.numel(), static_cast<int64_t>(by_layer.size()));
  if (pruned <= 0) return;
  float threshold = std::get<0>(scores.kthvalue(pruned)).item<float>();
  for (const auto& [path, score] : by_layer) {
    std::vector<bool>& kept = kept_[path];
    kept.clear();
    for (int64_t i = 0; i < score.numel(); ++i) kept.push_back(score[i].item<float>() > threshold);
  }
}

at::Tensor orthogonal_penalty(const Schedule::Parameters& parameters, const AdaloraFields& config) {
  at::Tensor sum = at::zeros({});
  int64_t count = 0;
  for (const auto& [name, tensor] : parameters) {
    if (!name.ends_with(kA) && !name.ends_with(kB)) continue;
    at::Tensor product = name.ends_with(kA) ? tensor.matmul(tensor.t()) : tensor.t().matmul(tensor);
    sum = sum + at::linalg_vector_norm(product - at::eye(product.size(0), product.options()));
    ++count;
  }
  return count ? sum * (config.orthogonal_weight / static_cast<double>(count)) : sum;
}

}  // namespace tenon::adapters
