#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/TensorOperators.h>

#include "adapters/boft/boft.h"

namespace tenon::adapters {

namespace {

class Boft : public Cloneable<Boft, InputTransform> {
 public:
  Boft(at::Tensor blocks, at::Tensor scales) : blocks_(std::move(blocks)), scales_(std::move(scales)) {}

  const char* method() const override { return "BOFT"; }
  std::vector<TensorField> tensor_fields() override { return {{"boft_R", &blocks_}, {"boft_s", &scales_}}; }
  bool transforms_in_reverse() const override { return true; }
  // Returns the rotation matrix of each block.
  at::Tensor prepare(const Layer&, double) const override {
    at::Tensor skew = (blocks_[0] - blocks_[0].transpose(1, 2)) * 0.5, one = at::eye(skew.size(1), skew.options());
    return at::linalg_solve(one + skew, one - skew, /*left=*/false);
  }

 protected:
  at::Tensor transformed(const at::Tensor& x, const at::Tensor& prepared) const override { return multiply_by_blocks(x, prepared); }
  at::Tensor output_scales() const override { return scales_.flatten(); }

 private:
  at::Tensor blocks_, scales_;
};

}  // namespace

LayerAdapterPointer make_boft(at::Tensor blocks, at::Tensor scales) { return std::make_shared<Boft>(std::move(blocks), std::move(scales)); }

}  // namespace tenon::adapters
