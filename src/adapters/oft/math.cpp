#include <ATen/ops/eye.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "adapters/oft/oft.h"

namespace tenon::adapters {

namespace {

// The positions of the elements above the diagonal in a flattened matrix.
at::Tensor upper_positions(int64_t size) {
  at::Tensor indices = at::triu_indices(size, size, 1);
  return indices[0] * size + indices[1];
}

// Returns the skew-symmetric matrix of each block from its elements above the diagonal.
at::Tensor skew_of(const at::Tensor& upper) {
  auto size = static_cast<int64_t>(std::lround((1 + std::sqrt(1 + 8 * static_cast<double>(upper.size(1)))) / 2));
  at::Tensor q = at::zeros({upper.size(0), size * size}, upper.options()).index_copy(1, upper_positions(size), upper);
  q = q.view({-1, size, size});
  return q - q.transpose(1, 2);
}

// Scales the elements of blocks whose skew-symmetric matrix has a larger norm than eps / sqrt(number of blocks). The ops are those of PEFT.
at::Tensor constrained(const at::Tensor& upper, double eps) {
  at::Tensor skew = skew_of(upper), norm = at::linalg_vector_norm(skew, 2, at::IntArrayRef({1, 2}), /*keepdim=*/true);
  at::Tensor limit = at::scalar_tensor(upper.size(0), at::kLong).sqrt().reciprocal() * eps;
  at::Tensor out = at::where(norm.le(limit), skew, limit * (skew / norm));
  return out.flatten(1).index_select(1, upper_positions(skew.size(1)));
}

class Oft : public Cloneable<Oft, InputTransform> {
 public:
  Oft(at::Tensor upper, int64_t inputs, const OftFields& config) : upper_(std::move(upper)), inputs_(inputs), config_(config) {}

  const char* method() const override { return "OFT"; }
  std::vector<TensorField> tensor_fields() override { return {{"oft_R.weight", &upper_}}; }
  // Returns the rotation matrix of each block.
  at::Tensor prepare(const Layer&, double) const override {
    at::Tensor upper = upper_;
    if (config_.is_constrained) {
      // The sum has exactly the constrained values, and its gradient is that of upper_: the last summand is 0.
      at::Tensor fixed = upper_.detach();
      upper = constrained(fixed, config_.eps) + (upper_ - fixed);
    }
    at::Tensor blocks = rotation_of(skew_of(upper));
    int64_t size = blocks.size(1);
    return config_.shares_block ? blocks.expand({inputs_ / size, size, size}) : blocks;
  }
  Constraint constraint() const override {
    if (!config_.is_constrained) return {};
    return [eps = config_.eps](const at::Tensor& upper) { return constrained(upper, eps); };
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
