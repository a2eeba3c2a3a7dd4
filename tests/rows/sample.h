// Arguments for an op, made up from its schema and from the row of the op table that they are for.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/CPUGeneratorImpl.h>

#include <optional>
#include <random>

#include "ops/rows.h"

namespace tenon::test {

// Numbers and tensors by chance, the same for the same seed.
class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  at::Generator generator() { return at::make_generator<at::CPUGeneratorImpl>(random_()); }
  // Contiguous, transposed, or every other element of something larger.
  at::Tensor tensor(std::vector<int64_t> sizes, at::ScalarType dtype, bool has_specials = false);

 private:
  void put_specials(at::Tensor& t);

  std::mt19937_64 random_;
};

class Sampler {
 public:
  Sampler(const c10::FunctionSchema& schema, const ops::Row& row, at::ScalarType dtype, uint64_t seed)
      : schema_(schema), row_(row), dtype_(dtype), random_(seed) {}

  torch::jit::Stack make();

 private:
  int64_t below(int64_t n) { return random_.below(n); }
  bool chance(int percent) { return random_.chance(percent); }
  at::Tensor tensor(std::vector<int64_t> sizes, at::ScalarType dtype);
  at::Tensor positive(std::vector<int64_t> sizes);
  std::vector<int64_t> broadcast(std::vector<int64_t> sizes);
  c10::IValue number();
  std::optional<c10::IValue> place(const std::string& name);
  c10::IValue argument(size_t index);
  c10::IValue from_text(const std::string& text, const c10::Type& type);

  const c10::FunctionSchema& schema_;
  const ops::Row& row_;
  at::ScalarType dtype_;
  Random random_;
  std::vector<int64_t> sizes_, normalized_;
  int64_t along_ = 0;  // a dimension
  bool is_batch_norm_ = false;
  bool has_specials_ = false;  // infinities, NaN, negative zeros
};

}  // namespace tenon::test
