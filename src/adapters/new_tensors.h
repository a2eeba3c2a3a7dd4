// The initial tensors of a new adapter, and the random draws that make them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "adapters/layer_adapter.h"

namespace tenon::adapters {

// Draws from the default generator in the default dtype, with the ops that PEFT calls. PEFT overwrites some draws; they are made all the
// same, because each of them shifts the numbers that follow.
at::Tensor draw_kaiming_uniform(at::IntArrayRef sizes);  // nn.init.kaiming_uniform_ with a = sqrt(5).
at::Tensor draw_linear_bias(int64_t outputs, int64_t inputs);
at::Tensor draw_normal(at::IntArrayRef sizes, double mean, double deviation);
at::Tensor draw_randn(at::IntArrayRef sizes);

// Converts f16, bf16 and narrower types to f32, as PEFT does with all parameters of an adapter.
at::Tensor widened(const at::Tensor& tensor);

class NewTensors {
 public:
  // Adds a tensor of a layer. It is rounded to the type of the layer's weight and then widened. Returns the rounded tensor.
  at::Tensor put(const Layer& layer, const std::string& name, const at::Tensor& value);
  // Adds a copy of a tensor of the base under its full name, widened so that it can be trained.
  void put_copy(const std::string& name, const at::Tensor& value);
  // Adds a tensor of the base as it is.
  void put_base(const std::string& name, const at::Tensor& value) { tensors_[name] = value; }

  const std::map<std::string, at::Tensor>& by_name() const { return tensors_; }

 private:
  std::map<std::string, at::Tensor> tensors_;
};

}  // namespace tenon::adapters
