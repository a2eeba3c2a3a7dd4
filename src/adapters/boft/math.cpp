#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/TensorOperators.h>

#include "adapters/boft/boft.h"

namespace tenon::adapters {

namespace {

class Boft : public PartOf<Boft, Turn> {
 public:
  Boft(at::Tensor blocks, at::Tensor scales) : blocks_(std::move(blocks)), scales_(std::move(scales)) {}

  const char* method() const override { return "BOFT"; }
  std::vector<Slot> slots() override { return {{"boft_R", &blocks_}, {"boft_s", &scales_}}; }
  bool turns_in_reverse() const override { return true; }
  // The blocks' turns.
  at::Tensor ready(const Layer&, double) const override {
    at::Tensor skew = (blocks_[0] - blocks_[0].transpose(1, 2)) * 0.5, one = at::eye(skew.size(1), skew.options());
    return at::linalg_solve(one + skew, one - skew, /*left=*/false);
  }

 protected:
  at::Tensor turned(const at::Tensor& x, const at::Tensor& ready) const override { return turn_blocks(x, ready); }
  at::Tensor outputs() const override { return scales_.flatten(); }

 private:
  at::Tensor blocks_, scales_;
};

}  // namespace

PartPointer make_boft(at::Tensor blocks, at::Tensor scales) { return std::make_shared<Boft>(std::move(blocks), std::move(scales)); }

}  // namespace tenon::adapters
