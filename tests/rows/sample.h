// Arguments for an op, made up from its schema and from the row of the op table that they are for.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <random>

#include "ops/rows.h"

namespace tenon::test {

class Sampler {
 public:
  Sampler(const c10::FunctionSchema& schema, const ops::Row& row, at::ScalarType dtype, uint64_t seed)
      : schema_(schema), row_(row), dtype_(dtype), random_(seed) {}

  torch::jit::Stack make();

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  at::Tensor tensor(std::vector<int64_t> sizes, at::ScalarType dtype);
  void put_specials(at::Tensor& t);
  std::vector<int64_t> broadcast(std::vector<int64_t> sizes);
  c10::IValue number();
  c10::IValue argument(size_t index);
  c10::IValue from_text(const std::string& text, const c10::Type& type);

  const c10::FunctionSchema& schema_;
  const ops::Row& row_;
  at::ScalarType dtype_;
  std::mt19937_64 random_;
  std::vector<int64_t> sizes_, normalized_;
  bool is_batch_norm_ = false;
  bool has_specials_ = false;  // infinities, NaN, negative zeros
};

}  // namespace tenon::test
