#include "adapters/new_tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <c10/util/accumulate.h>

#include <cmath>

#include "adapters/files.h"

namespace tenon::adapters {

at::Tensor draw_kaiming_uniform(at::IntArrayRef sizes) {
  // Computed in double in the order of torch.nn.init.
  double slope = std::sqrt(5.0), gain = std::sqrt(2.0 / (1 + slope * slope));
  double bound = std::sqrt(3.0) * (gain / std::sqrt(static_cast<double>(c10::multiply_integers(sizes.slice(1)))));
  return at::empty(sizes).uniform_(-bound, bound);
}

at::Tensor draw_linear_bias(int64_t outputs, int64_t inputs) {
  double bound = 1 / std::sqrt(static_cast<double>(inputs));
  return at::empty({outputs}).uniform_(-bound, bound);
}

at::Tensor draw_normal(at::IntArrayRef sizes, double mean, double deviation) { return at::empty(sizes).normal_(mean, deviation); }

at::Tensor draw_randn(at::IntArrayRef sizes) { return at::randn(sizes); }

at::Tensor widened(const at::Tensor& tensor) {
  bool is_narrow = c10::isFloatingType(tensor.scalar_type()) && tensor.itemsize() < sizeof(float);
  return is_narrow ? tensor.to(at::kFloat) : tensor;
}

at::Tensor NewTensors::put(const Layer& layer, const std::string& name, const at::Tensor& value) {
  at::Tensor rounded = value.to(layer.base.weight.scalar_type());
  tensors_[kPrefix + layer.path + "." + name] = widened(rounded);
  return rounded;
}

void NewTensors::put_copy(const std::string& name, const at::Tensor& value) { tensors_[name] = widened(value.detach()); }

}  // namespace tenon::adapters
