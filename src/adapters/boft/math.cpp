#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randperm.h>
#include <ATen/TensorOperators.h>

#include "adapters/boft/boft.h"

namespace tenon::adapters {

namespace {

class Boft : public Cloneable<Boft, InputTransform> {
 public:
  Boft(at::Tensor blocks, at::Tensor scales, double dropout) : blocks_(std::move(blocks)), scales_(std::move(scales)), dropout_(dropout) {}

  const char* method() const override { return "BOFT"; }
  std::vector<TensorField> tensor_fields() override { return {{"boft_R", &blocks_}, {"boft_s", &scales_}}; }
  bool transforms_in_reverse() const override { return true; }
  // Returns the rotation matrix of each block.
  at::Tensor prepare(const Layer&, double) const override {
    at::Tensor skew = (blocks_[0] - blocks_[0].transpose(1, 2)) * 0.5, one = at::eye(skew.size(1), skew.options());
    at::Tensor rotations = at::linalg_solve(one + skew, one - skew, /*left=*/false);
    return dropped_.defined() ? (1 - dropped_) * rotations + dropped_ * one : rotations;
  }
  bool draws_in_training() const override { return dropout_ > 0; }
  // A share of the blocks does not rotate.
  LayerAdapterPointer dropping(const at::Tensor&, const Layer&, const at::Generator& generator) const override {
    int64_t count = blocks_.size(1), chosen = static_cast<int64_t>(dropout_ * static_cast<double>(count));
    at::randint(0, blocks_.size(0), {1}, generator);  // PEFT chooses a butterfly factor, of which there is one.
    at::Tensor order = at::randperm(count, generator, at::kLong);
    auto out = std::make_shared<Boft>(*this);
    out->dropped_ = order.lt(chosen).to(blocks_.scalar_type()).view({-1, 1, 1});
    return out;
  }

 protected:
  at::Tensor transformed(const at::Tensor& x, const at::Tensor& prepared) const override { return multiply_by_blocks(x, prepared); }
  at::Tensor output_scales() const override { return scales_.flatten(); }

 private:
  at::Tensor blocks_, scales_;
  double dropout_;
  at::Tensor dropped_;  // A factor of 1 for each block that does not rotate, and 0 for the others; undefined if all rotate.
};

}  // namespace

LayerAdapterPointer make_boft(at::Tensor blocks, at::Tensor scales, double dropout) {
  return std::make_shared<Boft>(std::move(blocks), std::move(scales), dropout);
}

}  // namespace tenon::adapters
