// A matrix product of a graph, computed with the form of its weight that was fastest in a short trial.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <atomic>
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
  explicit ProductStep(std::string gelu = "") : gelu_(std::move(gelu)) {}

  // Whether the library allocates the result, so that `run` ignores `out`.
  bool allocates_result() const { return form_ == Form::onednn || !gelu_.empty(); }
  // Returns `out`, a contiguous tensor of m × n elements, if it is defined and the form can write to it; otherwise a new matrix.
  // Returns an undefined tensor if a GELU cannot be fused.
  at::Tensor run(const ProductOperands& operands, at::Tensor out) const;
  // Whether the product can be part of one parallel loop over the columns of several products with the same left operand.
  bool can_join(const ProductOperands& operands) const;
  // Runs that loop.
  static void run_joined(c10::ArrayRef<ProductOperands> operands, c10::ArrayRef<at::Tensor> outs);
  // The forms that are possible for operands of this type with `k` columns on the left.
  std::vector<Form> forms(at::ScalarType type, int64_t k) const;
  Form form() const { return form_; }
  // Selects the form of later runs.
  void use(Form form) const;
  void drop_packs_of_others() const;
  // Text for explain.
  std::string describe() const;

 private:
  std::shared_ptr<const Pack> pack(const ProductOperands& operands, Form form) const;
  Form choose(const ProductOperands& operands) const;

  std::string gelu_;
  mutable std::atomic<Form> form_{Form::plain};
  mutable std::atomic<bool> is_chosen_{false};
  mutable std::array<PackUse, kForms> packs_;  // One per form.
};

}  // namespace tenon::runtime
