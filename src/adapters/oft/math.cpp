#include <ATen/ops/eye.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "adapters/oft/oft.h"

namespace tenon::adapters {

namespace {

class Oft : public Cloneable<Oft, InputTransform> {
 public:
  Oft(at::Tensor upper, int64_t inputs, const OftFields& config) : upper_(std::move(upper)), inputs_(inputs), config_(config) {}

  const char* method() const override { return "OFT"; }
  std::vector<TensorField> tensor_fields() override { return {{"oft_R.weight", &upper_}}; }
  // Returns the rotation matrix of each block.
  at::Tensor prepare(const Layer&, double) const override {
    auto size = static_cast<int64_t>(std::lround((1 + std::sqrt(1 + 8 * static_cast<double>(upper_.size(1)))) / 2));
    at::Tensor indices = at::triu_indices(size, size, 1);
    at::Tensor q = at::zeros({upper_.size(0), size * size}, upper_.options()).index_copy(1, indices[0] * size + indices[1], upper_);
    q = q.view({-1, size, size});
    at::Tensor blocks = rotation_of(q - q.transpose(1, 2));
    return config_.shares_block ? blocks.expand({inputs_ / size, size, size}) : blocks;
  }

 protected:
  at::Tensor transformed(const at::Tensor& x, const at::Tensor& prepared) const override { return multiply_by_blocks(x, prepared); }

 private:
  // The Cayley transform of a skew-symmetric matrix Q: the truncated Neumann series I + 2Q + 2Q^2 + ... + Q^n, or exactly (I - Q)(I +
  // Q)^-1, which rotates in the opposite direction.
  at::Tensor rotation_of(const at::Tensor& q) const {
    at::Tensor one = at::eye(q.size(1), q.options());
    if (!config_.uses_series) return at::linalg_solve(one + q, one - q, /*left=*/false);
    at::Tensor out = one.expand_as(q);
    if (config_.terms == 1) return out;
    out = out + 2 * q;
    if (config_.terms == 2) return out;
    at::Tensor power = q.matmul(q);
    out = out + 2 * power;
    for (int64_t i = 3; i < config_.terms - 1; ++i) {
      power = power.matmul(q);
      out = out + 2 * power;
    }
    return out + power.matmul(q);
  }

  at::Tensor upper_;
  int64_t inputs_;
  OftFields config_;
};

}  // namespace

LayerAdapterPointer make_oft(at::Tensor upper, int64_t inputs, const OftFields& config) {
  return std::make_shared<Oft>(std::move(upper), inputs, config);
}

}  // namespace tenon::adapters
