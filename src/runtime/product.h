// A matrix product of a graph, computed with the form of its weight that was fastest in a short trial. One object serves all sizes of
// the graph: packs do not depend on the number of rows, and the form is chosen once per class of row numbers.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/packs.h"

namespace tenon::runtime {

// left[m, k] × right[k, n] + bias[n], f32 or bf16; the bias may be undefined.
struct ProductOperands {
  const at::Tensor& left;
  const at::Tensor& right;
  const at::Tensor& bias;
};

class ProductStep {
 public:
  // `gelu` is the approximation of a fused GELU; empty if there is none.
  explicit ProductStep(std::string gelu = "") : gelu_(std::move(gelu)) {
    for (Choice& choice : choices_) choice.store(kNoChoice, std::memory_order_relaxed);
  }

  // Whether the library allocates the result, so that `run` ignores `out`.
  bool allocates_result(int64_t rows) const { return !gelu_.empty() || form(rows) == Form::onednn; }
  // Returns `out`, a contiguous tensor of m × n elements, if it is defined and the form can write to it; otherwise a new matrix.
  // Returns an undefined tensor if a GELU cannot be fused.
  at::Tensor run(const ProductOperands& operands, at::Tensor out) const;
  // Whether the product can be part of one parallel loop over the columns of several products with the same left operand.
  bool can_join(const ProductOperands& operands) const;
  // Runs that loop.
  static void run_joined(c10::ArrayRef<ProductOperands> operands, c10::ArrayRef<at::Tensor> outs);
  // The forms that are possible for operands of this type, with `rows` rows and `k` columns on the left.
  std::vector<Form> forms(at::ScalarType type, int64_t rows, int64_t k) const;
  // The form of runs with this number of rows; `plain` before the first one.
  Form form(int64_t rows) const {
    uint8_t chosen = choice(rows).load(std::memory_order_acquire);
    return chosen == kNoChoice ? Form::plain : static_cast<Form>(chosen);
  }
  // Selects the form of later runs with this number of rows.
  void use(int64_t rows, Form form) const { choice(rows).store(static_cast<uint8_t>(form), std::memory_order_release); }
  // Drops packs of forms that no number of rows uses.
  void drop_unused_packs() const;
  // Text for explain about runs with this number of rows.
  std::string describe(int64_t rows) const;

 private:
  using Choice = std::atomic<uint8_t>;  // A Form, or kNoChoice.
  static constexpr uint8_t kNoChoice = kForms;
  static constexpr size_t kClasses = 10;

  // The class of a number of rows: the logarithm of the next power of two. From 257 rows on there is only one: forms of such products
  // differ by less than 10 % in time, and a trial would take several times as long as the call.
  static size_t class_of(int64_t rows) {
    return rows > 1 ? std::min(static_cast<size_t>(std::bit_width(static_cast<uint64_t>(rows - 1))), kClasses - 1) : 0;
  }
  Choice& choice(int64_t rows) const { return choices_[class_of(rows)]; }
  std::shared_ptr<const Pack> pack(const ProductOperands& operands, Form form) const;
  Form choose(const ProductOperands& operands) const;
  bool is_used(Form form) const;  // Returns whether runs with some number of rows use the form.

  std::string gelu_;
  mutable std::array<Choice, kClasses> choices_;
  mutable std::array<PackUse, kForms> packs_;  // One per form.
};

}  // namespace tenon::runtime
