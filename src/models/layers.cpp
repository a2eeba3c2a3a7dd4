// Layers with the same sequence of ops as in Transformers, so that results can be compared bit by bit.
#include <ATen/ops/addmm.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rsqrt.h>
#include <tenon/family.h>

#include "models/adapter_site.h"

namespace tenon {

namespace {

at::Tensor take_bias(const Weights& from, int64_t width, bool has_bias) { return has_bias ? from.take("bias", {width}) : at::Tensor(); }

}  // namespace

Linear::Linear(const Weights& from, int64_t in, int64_t out, bool has_bias, WeightLayout layout)
    : weight(
          put_parameter("weight", layout == WeightLayout::output_first ? from.take("weight", {out, in}) : from.take("weight", {in, out}))),
      bias(put_parameter("bias", take_bias(from, out, has_bias))),
      layout_(layout) {}

Linear::Linear(at::Tensor weight, at::Tensor bias)
    : weight(put_parameter("weight", std::move(weight))), bias(put_parameter("bias", std::move(bias))) {}

at::Tensor Linear::forward(const at::Tensor& x) const {
  return models::through_bank(adapter_site(), x, weight, bias, [&](const at::Tensor& given) {
    if (layout_ == WeightLayout::output_first) return at::linear(given, weight, bias);
    auto sizes = given.sizes().vec();
    sizes.back() = weight.size(1);
    return at::addmm(bias, given.view({-1, weight.size(0)}), weight).view(sizes);
  });
}

Embedding::Embedding(const Weights& from, int64_t count, int64_t width)
    : weight(put_parameter("weight", from.take("weight", {count, width}))) {}

at::Tensor Embedding::forward(const at::Tensor& ids) const {
  return models::apply_to_output(adapter_site(), ids, at::embedding(weight, ids));
}

Linear tied_or_own(bool tied, const Embedding& embedding, const Weights& from) {
  return tied ? Linear(embedding.weight, {}) : Linear(from, embedding.weight.size(1), embedding.weight.size(0), /*has_bias=*/false);
}

LayerNorm::LayerNorm(const Weights& from, int64_t width, double epsilon)
    : weight(put_parameter("weight", from.take("weight", {width}))),
      bias(put_parameter("bias", from.take("bias", {width}))),
      epsilon_(epsilon) {}

at::Tensor LayerNorm::forward(const at::Tensor& x) const {
  return models::apply_to_output(adapter_site(), x, at::layer_norm(x, {weight.size(0)}, weight, bias, epsilon_));
}

RmsNorm::RmsNorm(const Weights& from, int64_t width, double epsilon, Factor factor)
    : weight(put_parameter("weight", from.take("weight", {width}))), epsilon_(epsilon), factor_(factor) {}

at::Tensor RmsNorm::forward(const at::Tensor& x) const {
  at::Tensor wide = x.to(at::kFloat), normalized = wide * at::rsqrt(wide.pow(2).mean(-1, true) + epsilon_);
  at::Tensor y = factor_ == Factor::weight ? weight * normalized.to(x.scalar_type())
                                           : (normalized * (1.0 + weight.to(at::kFloat))).to(x.scalar_type());
  return models::apply_to_output(adapter_site(), x, y);
}

Conv2d::Conv2d(const Weights& from, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, bool has_bias)
    : weight(put_parameter("weight", from.take("weight", {out, in, kernel, kernel}))),
      bias(put_parameter("bias", take_bias(from, out, has_bias))),
      stride_(stride),
      padding_(padding) {}

at::Tensor Conv2d::forward(const at::Tensor& x) const {
  return models::through_bank(adapter_site(), x, weight, bias,
                              [&](const at::Tensor& given) { return at::conv2d(given, weight, bias, stride_, padding_); });
}

BatchNorm::BatchNorm(const Weights& from, int64_t width)
    : weight(put_parameter("weight", from.take("weight", {width}))),
      bias(put_parameter("bias", from.take("bias", {width}))),
      mean(put_buffer("running_mean", from.take("running_mean", {width}))),
      variance(put_buffer("running_var", from.take("running_var", {width}))),
      batches(put_buffer("num_batches_tracked", from.take("num_batches_tracked", {}))) {}

at::Tensor BatchNorm::forward(const at::Tensor& x) const {
  if (is_training()) batches.add_(1);
  return at::batch_norm(x, weight, bias, mean, variance, is_training(), 0.1, 1e-5, false);
}

}  // namespace tenon
