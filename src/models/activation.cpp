// Activations by Transformers' names.
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>
#include <tenon/family.h>

#include "base/error.h"

namespace tenon {

Activation activation(const std::string& name) {
  if (name == "gelu") return [](const at::Tensor& x) { return at::gelu(x); };
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return [](const at::Tensor& x) { return at::gelu(x, "tanh"); };
  if (name == "relu") return [](const at::Tensor& x) { return at::relu(x); };
  if (name == "silu") return [](const at::Tensor& x) { return at::silu(x); };
  if (name == "tanh") return [](const at::Tensor& x) { return at::tanh(x); };
  throw UserError(ErrorCode::config, "config.json: activation \"" + name +
                                         "\" is not supported; supported are gelu, gelu_new, "
                                         "gelu_pytorch_tanh, relu, silu and tanh");
}

}  // namespace tenon
