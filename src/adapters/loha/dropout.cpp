#include "adapters/loha/dropout.h"

#include <ATen/ops/rand.h>
#include <ATen/TensorOperators.h>

#include <vector>

namespace tenon::adapters {

void LycorisDropout::draw(int64_t outputs, const at::Generator& generator) {
  is_skipped_ = !at::rand({1}, generator).gt(module_).item<bool>();
  if (is_skipped_ || rank_ == 0) return;
  factors_ = at::rand({outputs}, generator).gt(rank_).to(at::kFloat);
  if (is_scaled_) factors_.div_(factors_.mean());
}

at::Tensor LycorisDropout::apply(const at::Tensor& values, int64_t dim) const {
  if (!factors_.defined()) return values;
  std::vector<int64_t> sizes(static_cast<size_t>(values.dim()), 1);
  sizes[static_cast<size_t>(dim)] = -1;
  return values * factors_.to(values.scalar_type()).view(sizes);
}

}  // namespace tenon::adapters
