#include "adapters/input_dropout.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>

namespace tenon::adapters {

void InputDropout::draw(const at::Tensor& x, const at::Generator& generator) {
  is_drawn_ = true;
  if (probability_ < 1) kept_ = at::empty_like(x, x.options().dtype(at::kBool)).bernoulli_(1 - probability_, generator);
}

at::Tensor InputDropout::apply(const at::Tensor& x) const {
  if (!is_drawn_) return x;
  if (!kept_.defined()) return x * at::zeros({}, x.options());
  return x * kept_.to(x.scalar_type()).div_(1 - probability_);
}

}  // namespace tenon::adapters
