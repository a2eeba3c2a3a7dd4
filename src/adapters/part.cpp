#include "adapters/part.h"

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
  if (kind != Kind::embedding && !is_norm()) x = x.to(base.weight.scalar_type());
  if (bias.defined()) bias = bias.to(base.weight.scalar_type());
  switch (kind) {
    case Kind::linear:
      return at::linear(x, base.weight, bias);
    case Kind::turned_linear:
      return at::linear(x, base.weight.t(), bias);
    case Kind::embedding:
      return at::embedding(base.weight, x);
    case Kind::conv2d:
      return at::conv2d(x, base.weight, bias, stride, padding);
    case Kind::layer_norm:
      return at::layer_norm(x, {base.weight.size(0)}, base.weight, bias, epsilon);
    case Kind::rms_norm: {
      at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
      return base.weight * (wide * at::rsqrt(wide.pow(2).mean(-1, true) + epsilon)).to(x.scalar_type());
    }
  }
  throw InternalError("a layer of no kind");
}

Layer::Gradients Layer::backward(const at::Tensor& grad, const at::Tensor& x, std::array<bool, 3> asks) const {
  auto [asks_x, asks_weight, asks_bias] = asks;
  const at::Tensor& weight = base.weight;
  at::Tensor g = grad.to(weight.scalar_type()), given = asks_weight ? x.to(weight.scalar_type()) : x;
  Gradients out;
  if (kind == Kind::conv2d) {
    std::tie(out.x, out.weight, out.bias) =
        at::convolution_backward(g, given.to(weight.scalar_type()), weight, at::IntArrayRef({weight.size(0)}), {stride, stride},
                                 {padding, padding}, {1, 1}, false, {0, 0}, 1, asks);
  } else {
    bool is_turned = kind == Kind::turned_linear;
    if (asks_x) out.x = g.matmul(is_turned ? weight.t() : weight);
    at::Tensor flat = g.reshape({-1, outputs()});
    if (asks_weight) {
      at::Tensor inputs_flat = given.reshape({-1, inputs()});
      out.weight = is_turned ? inputs_flat.t().mm(flat) : flat.t().mm(inputs_flat);
    }
    if (asks_bias) out.bias = flat.sum(0);
  }
  if (asks_x) out.x = out.x.to(x.scalar_type());
  return out;
}

std::vector<std::pair<std::string, at::Tensor>> Part::tensors() const {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const Slot& slot : const_cast<Part*>(this)->slots()) out.emplace_back(slot.name, *slot.tensor);
  return out;
}

std::shared_ptr<const Part> Part::with(const std::vector<at::Tensor>& tensors) const {
  auto out = copy();
  auto slots = out->slots();
  for (size_t i = 0; i < slots.size(); ++i) *slots[i].tensor = tensors.at(i);
  return out;
}

std::shared_ptr<const Part> Part::settled() const {
  auto out = copy();
  for (const Slot& slot : out->slots()) *slot.tensor = slot.tensor->detach().clone(at::MemoryFormat::Contiguous);
  out->settle();
  return out;
}

at::Tensor Delta::ready(const Layer& layer, double factor) const { return delta(layer) * factor; }

at::Tensor Delta::finish(const at::Tensor& y, const at::Tensor& x, const at::Tensor& by, const Layer& layer, double) const {
  at::Tensor wide = x.to(by.scalar_type());
  at::Tensor added = layer.kind == Kind::conv2d ? at::conv2d(wide, by, {}, layer.stride, layer.padding) : at::linear(wide, by);
  return (y + added).to(y.scalar_type());
}

Base Delta::merged(const Layer& layer, double factor) const {
  at::Tensor by = delta(layer) * factor;
  if (layer.kind == Kind::turned_linear) by = by.t();
  return {layer.base.weight + by.to(layer.base.weight.scalar_type()), layer.base.bias};
}

at::Tensor Turn::turn(const at::Tensor& x, const at::Tensor& ready, const Layer&) const {
  return turned(x.to(ready.scalar_type()), ready).to(x.scalar_type());
}

at::Tensor Turn::finish(const at::Tensor& y, const at::Tensor&, const at::Tensor&, const Layer& layer, double) const {
  at::Tensor by = outputs();
  if (!by.defined() || turns_weight(layer)) return y;
  const at::Tensor& bias = layer.base.bias;
  return (bias.defined() ? (y - bias) * by + bias : y * by).to(y.scalar_type());
}

at::Tensor turn_blocks(const at::Tensor& x, const at::Tensor& blocks) {
  at::Tensor parts = x.reshape({-1, blocks.size(0), blocks.size(1)}).transpose(0, 1);
  return parts.bmm(blocks).transpose(0, 1).reshape(x.sizes());
}

Base Turn::merged(const Layer& layer, double factor) const {
  const at::Tensor& weight = layer.base.weight;
  at::Tensor given = ready(layer, factor), by = outputs();
  at::Tensor matrix = turned(at::eye(weight.numel() / layer.outputs(), given.options()), given);
  at::Tensor out = weight.flatten(1).to(matrix.scalar_type()).matmul(matrix.t());
  if (by.defined()) out = out * by.unsqueeze(1);
  return {out.view(weight.sizes()).to(weight.scalar_type()), layer.base.bias};
}

}  // namespace tenon::adapters
