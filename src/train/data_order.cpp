#include "train/data_order.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randperm.h>

namespace tenon::train {

std::vector<size_t> data_order(size_t examples, int64_t seed, int64_t epoch) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed + epoch));
  at::Tensor order = at::randperm(static_cast<int64_t>(examples), generator, at::TensorOptions(at::kLong));
  const int64_t* first = order.const_data_ptr<int64_t>();
  return {first, first + order.numel()};
}

void draw_loader_seed() { at::empty({}, at::kLong).random_(); }

}  // namespace tenon::train
