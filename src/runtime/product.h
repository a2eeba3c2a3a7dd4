// A product of matrices at its place in a graph, by the form of its weight that was fastest in a short trial.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/packs.h"

namespace tenon::runtime {

// [m, k] by [k, n], f32 or bf16; `out` is [m, n] in order. The row, of n elements, is added to each of its rows; it may be none.
struct ProductOperands {
  const at::Tensor& left;
  const at::Tensor& right;
  const at::Tensor& row;
};

class Product {
 public:
  // `gelu`: empty, or how the result's GELU is approximated.
  explicit Product(std::string gelu = "") : gelu_(std::move(gelu)) {}

  // True: `run` has no use for memory, the library makes its own.
  bool makes_memory() const { return form_ == Form::onednn || !gelu_.empty(); }
  // The result, which is `out` if that is defined and the form can write to it; undefined where a GELU cannot be part of it.
  at::Tensor run(const ProductOperands& operands, at::Tensor out) const;
  // The form, once it is known, and its sizes.
  std::string describe() const;

 private:
  Form choose(const ProductOperands& operands) const;

  std::string gelu_;
  mutable std::atomic<Form> form_{Form::plain};
  mutable std::atomic<bool> is_chosen_{false};
  mutable PackUse packs_;
};

}  // namespace tenon::runtime
