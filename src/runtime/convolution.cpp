#include "runtime/convolution.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/TensorOperators.h>
#include <c10/util/SmallVector.h>

#include <bit>

#include "bridge/convert.h"

namespace tenon::runtime {
namespace {

at::Tensor call(const c10::OperatorHandle& op, torch::jit::Stack stack) {
  op.callBoxed(&stack);
  return stack[0].toTensor();
}

}  // namespace

ConvolutionStep::Folded ConvolutionStep::fold(c10::ArrayRef<at::Tensor> weights, double epsilon) const {
  std::vector<at::Tensor> all;
  for (const at::Tensor& weight : weights) all.push_back(bridge::borrowed(weight));
  Folded out{all[0], what_.has_bias ? all[1] : at::Tensor()};
  if (!what_.has_norm) return out;
  size_t first = what_.has_bias ? 2 : 1;
  auto wide = [&](size_t i) { return all[first + i].to(at::kDouble); };
  at::Tensor factor = wide(0) * (wide(3) + epsilon).rsqrt();
  at::Tensor shift = wide(1) - wide(2) * factor;
  if (out.bias.defined()) shift = shift + out.bias.to(at::kDouble) * factor;
  out.weight = (out.weight.to(at::kDouble) * factor.view({-1, 1, 1, 1})).to(out.weight.scalar_type());
  out.bias = shift.to(out.weight.scalar_type());
  return out;
}

double ConvolutionStep::epsilon(c10::ArrayRef<double> scalars) const {
  if (!what_.has_norm) return 0;
  return what_.epsilon_scalar == ir::kNoScalar ? what_.epsilon : scalars[static_cast<size_t>(what_.epsilon_scalar)];
}

std::optional<at::Tensor> ConvolutionStep::run(c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<double> scalars) const {
  bool is_narrow = inputs[0].scalar_type() == at::kBFloat16;
  if (!at::globalContext().userEnabledMkldnn() || (is_narrow && !__builtin_cpu_supports("avx512bw"))) return std::nullopt;
  double eps = epsilon(scalars);
  c10::SmallVector<Weight, 6> used;
  for (const at::Tensor& weight : inputs.slice(1, weights())) used.push_back(Weight::of(weight));
  c10::SmallVector<int64_t, 6> detail(inputs[1].sizes());
  detail.push_back(std::bit_cast<int64_t>(eps));
  auto pack = packs_.get(used, Form::onednn, detail, [&] {
    static const c10::OperatorHandle op = bridge::find_op("mkldnn::_reorder_convolution_weight");
    auto [weight, bias] = fold(inputs.slice(1, weights()), eps);
    Packed out;
    out.bytes = weight.nbytes() + (bias.defined() ? bias.nbytes() : 0);
    out.tensor = call(op, {weight.contiguous(), what_.padding, what_.stride, what_.dilation, what_.groups, inputs[0].sizes()});
    if (bias.defined()) out.bias = bias.clone();
    return out;
  });
  if (!pack) return std::nullopt;
  at::Tensor image = inputs[0].contiguous(at::MemoryFormat::ChannelsLast);
  c10::IValue bias_value = pack->packed.bias.defined() ? c10::IValue(pack->packed.bias) : c10::IValue();
  c10::List<std::optional<at::Scalar>> none;
  if (!what_.has_other) {
    static const c10::OperatorHandle op = bridge::find_op("mkldnn::_convolution_pointwise");
    return call(op, {image, pack->packed.tensor, bias_value, what_.padding, what_.stride, what_.dilation, what_.groups,
                     what_.has_relu ? "relu" : "none", none, ""});
  }
  static const c10::OperatorHandle op = bridge::find_op("mkldnn::_convolution_pointwise.binary");
  at::Tensor other = inputs.back().contiguous(at::MemoryFormat::ChannelsLast);
  c10::IValue after = what_.has_relu ? c10::IValue("relu") : c10::IValue();
  return call(op, {image, other, pack->packed.tensor, bias_value, what_.padding, what_.stride, what_.dilation, what_.groups, "add",
                   c10::IValue(at::Scalar(1.0)), after, none, ""});
}

}  // namespace tenon::runtime
