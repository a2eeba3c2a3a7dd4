// A product of matrices at its place in a graph, by the form of its weight that was fastest in a short trial.
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

// [m, k] by [k, n], f32 or bf16. The row, of n elements, is added to each of its rows; it may be none.
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
  // The result, which is `out`, of m times n elements in order, if that is defined and the form can write to it; or else a new
  // matrix. Undefined where a GELU cannot be part of it.
  at::Tensor run(const ProductOperands& operands, at::Tensor out) const;
  // Whether it can be part of one loop over the columns of several products with the same left operand; and that loop.
  bool can_join(const ProductOperands& operands) const;
  static void run_joined(c10::ArrayRef<ProductOperands> operands, c10::ArrayRef<at::Tensor> outs);
  // The forms that could serve operands of this type, `k` deep.
  std::vector<Form> forms(at::ScalarType type, int64_t k) const;
  Form form() const { return form_; }
  // From now on by this form.
  void use(Form form) const;
  void drop_packs_of_others() const;
  // The form, once it is known.
  std::string describe() const;

 private:
  std::shared_ptr<const Pack> pack(const ProductOperands& operands, Form form) const;
  Form choose(const ProductOperands& operands) const;

  std::string gelu_;
  mutable std::atomic<Form> form_{Form::plain};
  mutable std::atomic<bool> is_chosen_{false};
  mutable std::array<PackUse, kForms> packs_;  // per form
};

}  // namespace tenon::runtime
