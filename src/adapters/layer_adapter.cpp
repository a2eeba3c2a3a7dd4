#include "adapters/layer_adapter.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/TensorOperators.h>

#include "base/error.h"

namespace tenon::adapters {

Layer Layer::over(const at::Tensor& weight, const std::optional<at::Tensor>& bias) const {
  Layer out = *this;
  out.base = {weight, bias.value_or(at::Tensor())};
  return out;
}

at::Tensor Layer::run(const at::Tensor& given) const {
  at::Tensor x = given, bias = base.bias;
  if (kind != LayerKind::embedding && !is_norm()) x = x.to(base.weight.scalar_type());
  if (bias.defined()) bias = bias.to(base.weight.scalar_type());
  switch (kind) {
    case LayerKind::linear:
      return at::linear(x, base.weight, bias);
    case LayerKind::conv1d:
      return at::linear(x, base.weight.t(), bias);
    case LayerKind::embedding:
      return at::embedding(base.weight, x);
    case LayerKind::conv2d:
      return at::conv2d(x, base.weight, bias, stride, padding);
    case LayerKind::layer_norm:
      return at::layer_norm(x, {base.weight.size(0)}, base.weight, bias, epsilon);
    case LayerKind::rms_norm: {
      at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
      at::Tensor normed = wide * at::rsqrt(wide.pow(2).mean(-1, true) + epsilon);
      if (adds_one) return (normed * (1.0 + base.weight.to(wide.scalar_type()))).to(x.scalar_type());
      return base.weight * normed.to(x.scalar_type());
    }
  }
  throw InternalError("unknown kind of layer");
}

Layer::LayerGradients Layer::backward(const at::Tensor& grad, const at::Tensor& x, std::array<bool, 3> output_mask) const {
  auto [needs_x, needs_weight, needs_bias] = output_mask;
  const at::Tensor& weight = base.weight;
  at::Tensor g = grad.to(weight.scalar_type()), given = needs_weight ? x.to(weight.scalar_type()) : x;
  LayerGradients out;
  if (kind == LayerKind::conv2d) {
    std::tie(out.x, out.weight, out.bias) =
        at::convolution_backward(g, given.to(weight.scalar_type()), weight, at::IntArrayRef({weight.size(0)}), {stride, stride},
                                 {padding, padding}, {1, 1}, false, {0, 0}, 1, output_mask);
  } else {
    bool is_transposed = kind == LayerKind::conv1d;
    if (needs_x) out.x = g.matmul(is_transposed ? weight.t() : weight);
    at::Tensor flat = g.reshape({-1, outputs()});
    if (needs_weight) {
      at::Tensor inputs_flat = given.reshape({-1, inputs()});
      out.weight = is_transposed ? inputs_flat.t().mm(flat) : flat.t().mm(inputs_flat);
    }
    if (needs_bias) out.bias = flat.sum(0);
  }
  if (needs_x) out.x = out.x.to(x.scalar_type());
  return out;
}

std::vector<std::pair<std::string, at::Tensor>> LayerAdapter::tensors() const {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const TensorField& field : const_cast<LayerAdapter*>(this)->tensor_fields()) out.emplace_back(field.name, *field.tensor);
  return out;
}

std::shared_ptr<const LayerAdapter> LayerAdapter::with(const std::vector<at::Tensor>& tensors) const {
  auto out = copy();
  auto tensor_fields = out->tensor_fields();
  for (size_t i = 0; i < tensor_fields.size(); ++i) *tensor_fields[i].tensor = tensors.at(i);
  return out;
}

std::shared_ptr<const LayerAdapter> LayerAdapter::prepacked_copy() const {
  auto out = copy();
  for (const TensorField& field : out->tensor_fields()) *field.tensor = field.tensor->detach().clone(at::MemoryFormat::Contiguous);
  out->prepack();
  return out;
}

at::Tensor Delta::prepare(const Layer& layer, double factor) const { return delta(layer) * factor; }

at::Tensor Delta::apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor& by, const Layer& layer, double) const {
  at::Tensor wide = drop_input(x.to(by.scalar_type()));
  at::Tensor added = layer.kind == LayerKind::conv2d ? at::conv2d(wide, by, {}, layer.stride, layer.padding) : at::linear(wide, by);
  return (y + added).to(y.scalar_type());
}

Base Delta::merged(const Layer& layer, double factor) const {
  at::Tensor by = delta(layer) * factor;
  if (layer.kind == LayerKind::conv1d) by = by.t();
  return {layer.base.weight + by.to(layer.base.weight.scalar_type()), layer.base.bias};
}

at::Tensor InputTransform::transform_input(const at::Tensor& x, const at::Tensor& prepared, const Layer&) const {
  return transformed(x.to(prepared.scalar_type()), prepared).to(x.scalar_type());
}

at::Tensor InputTransform::apply_to_output(const at::Tensor& y, const at::Tensor&, const at::Tensor&, const Layer& layer, double) const {
  at::Tensor by = output_scales();
  if (!by.defined() || transforms_weight(layer)) return y;
  const at::Tensor& bias = layer.base.bias;
  return (bias.defined() ? (y - bias) * by + bias : y * by).to(y.scalar_type());
}

at::Tensor multiply_by_blocks(const at::Tensor& x, const at::Tensor& blocks) {
  at::Tensor blocked = x.reshape({-1, blocks.size(0), blocks.size(1)}).transpose(0, 1);
  return blocked.bmm(blocks).transpose(0, 1).reshape(x.sizes());
}

Base InputTransform::merged(const Layer& layer, double factor) const {
  const at::Tensor& weight = layer.base.weight;
  at::Tensor given = prepare(layer, factor), by = output_scales();
  at::Tensor matrix = transformed(at::eye(weight.numel() / layer.outputs(), given.options()), given);
  at::Tensor out = weight.flatten(1).to(matrix.scalar_type()).matmul(matrix.t());
  if (by.defined()) out = out * by.unsqueeze(1);
  return {out.view(weight.sizes()).to(weight.scalar_type()), layer.base.bias};
}

}  // namespace tenon::adapters
