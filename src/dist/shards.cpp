#include "dist/shards.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace tenon::dist {
namespace {

template <class... Kinds>
bool is_any(const torch::optim::Optimizer& optimizer) {
  return (dynamic_cast<const Kinds*>(&optimizer) || ...);
}

bool works_by_element(const torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;
  return is_any<SGD, Adam, AdamW, RMSprop>(optimizer);
}

}  // namespace

OptimizerShards::OptimizerShards(torch::optim::Optimizer& optimizer, std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {
  if (!works_by_element(optimizer))
    throw UserError(ErrorCode::config,
                    "shard_optimizer_state needs an optimizer that updates each element by itself: SGD, Adam, AdamW or RMSprop.");
  if (!optimizer.state().empty())
    throw UserError(ErrorCode::config,
                    "shard_optimizer_state needs an optimizer that has made no step yet. Prepare it before the first step.");
  at::NoGradGuard no_grad;
  for (torch::optim::OptimizerParamGroup& params : optimizer.param_groups()) {
    std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
    for (const at::Tensor& parameter : params.params())
      if (parameter.requires_grad()) by_type[parameter.scalar_type()].push_back(parameter);
    params.params().clear();
    for (auto& [type, parameters] : by_type) {
      shards_.push_back(make_shard(parameters));
      params.params().push_back(shards_.back().own);
    }
  }
}

OptimizerShards::Shard OptimizerShards::make_shard(const std::vector<at::Tensor>& parameters) const {
  int64_t count = 0;
  for (const at::Tensor& parameter : parameters) count += parameter.numel();
  int64_t length = (count + group_->size() - 1) / group_->size();
  Shard shard{.parameters = parameters,
              .flat = at::zeros({length * group_->size()}, parameters[0].options().requires_grad(false)),
              .first = length * group_->rank()};
  int64_t offset = 0;
  for (at::Tensor& parameter : shard.parameters) {
    at::Tensor place = at::empty({0}, shard.flat.options()).set_(shard.flat.storage(), offset, parameter.sizes());
    place.copy_(parameter);
    parameter.set_data(place);
    offset += parameter.numel();
  }
  shard.own = at::empty({0}, shard.flat.options()).set_(shard.flat.storage(), shard.first, {length});
  shard.own.requires_grad_(true);
  return shard;
}

void OptimizerShards::set_gradients() {
  at::NoGradGuard no_grad;
  for (Shard& shard : shards_) {
    at::Tensor& gradient = shard.own.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(shard.own).requires_grad_(false);
    int64_t length = shard.own.numel(), offset = 0;
    for (const at::Tensor& parameter : shard.parameters) {
      int64_t begin = std::max(offset, shard.first), end = std::min(offset + parameter.numel(), shard.first + length);
      if (begin < end) {
        at::Tensor target = gradient.narrow(0, begin - shard.first, end - begin);
        const at::Tensor& whole = parameter.grad();
        if (whole.defined()) target.copy_(whole.reshape({-1}).narrow(0, begin - offset, end - begin));
        else target.zero_();
      }
      offset += parameter.numel();
    }
  }
}

void OptimizerShards::gather() {
  at::NoGradGuard no_grad;
  for (Shard& shard : shards_) group_->gather(shard.own.detach().clone(), shard.flat).wait();
}

void OptimizerShards::clear_gradients() {
  for (Shard& shard : shards_)
    for (at::Tensor& parameter : shard.parameters) parameter.mutable_grad().reset();
}

}  // namespace tenon::dist
