// Generates arguments for an op from its schema and its op-table entry.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/CPUGeneratorImpl.h>

#include <optional>
#include <random>

#include "ops/entries.h"

namespace tenon::test {

// Random numbers and tensors, reproducible by seed.
class Random {
 public:
  explicit Random(uint64_t seed) : random_(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  at::Generator generator() { return at::make_generator<at::CPUGeneratorImpl>(random_()); }
  // Returns a contiguous or transposed tensor, or every other element of a larger one.
  at::Tensor tensor(std::vector<int64_t> sizes, at::ScalarType dtype, bool has_specials = false);

 private:
  void put_specials(at::Tensor& t);

  std::mt19937_64 random_;
};

class Sampler {
 public:
  Sampler(const c10::FunctionSchema& schema, const ops::OpEntry& entry, at::ScalarType dtype, uint64_t seed)
      : schema_(schema), entry_(entry), dtype_(dtype), random_(seed) {}

  torch::jit::Stack make();

 private:
  int64_t below(int64_t n) { return random_.below(n); }
  bool chance(int percent) { return random_.chance(percent); }
  at::Tensor tensor(std::vector<int64_t> sizes, at::ScalarType dtype);
  at::Tensor positive(std::vector<int64_t> sizes);
  std::vector<int64_t> broadcast(std::vector<int64_t> sizes);
  c10::IValue number();
  std::optional<c10::IValue> positional_argument(const std::string& name);
  c10::IValue argument(size_t index);
  c10::IValue from_text(const std::string& text, const c10::Type& type);

  const c10::FunctionSchema& schema_;
  const ops::OpEntry& entry_;
  at::ScalarType dtype_;
  Random random_;
  std::vector<int64_t> sizes_, normalized_;
  int64_t along_ = 0;  // The dimension that is indexed.
  bool is_batch_norm_ = false;
  bool has_specials_ = false;  // Tensors contain infinities, NaN and negative zeros.
};

}  // namespace tenon::test
