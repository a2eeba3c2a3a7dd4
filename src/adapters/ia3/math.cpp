#include <ATen/TensorOperators.h>

#include "adapters/ia3/ia3.h"

namespace tenon::adapters {

namespace {

class Ia3 : public PartOf<Ia3> {
 public:
  Ia3(at::Tensor factors, bool is_feed_forward) : factors_(std::move(factors)), is_feed_forward_(is_feed_forward) {}

  std::vector<Slot> slots() override { return {{"ia3_l", &factors_}}; }
  bool has_scale() const override { return false; }
  bool adds() const override { return is_feed_forward_; }
  bool turns() const override { return is_feed_forward_; }
  at::Tensor turn(const at::Tensor& x, const at::Tensor&, const Layer& layer) const override {
    return is_feed_forward_ ? (x * along(layer)).to(x.scalar_type()) : x;
  }
  at::Tensor finish(const at::Tensor& y, const at::Tensor&, const at::Tensor&, const Layer& layer, double) const override {
    return is_feed_forward_ ? y : (y * along(layer)).to(y.scalar_type());
  }
  Base merged(const Layer& layer, double) const override {
    bool is_first = is_feed_forward_ == (layer.kind == Kind::turned_linear);  // which dimension of the weight the factors count
    at::Tensor weight = layer.base.weight, flat = factors_.flatten();
    std::vector<int64_t> sizes(static_cast<size_t>(weight.dim()), 1);
    sizes[is_first ? 0 : 1] = flat.numel();
    Base out{(weight * flat.view(sizes)).to(weight.scalar_type()), layer.base.bias};
    if (!is_feed_forward_ && out.bias.defined()) out.bias = (out.bias * flat).to(out.bias.scalar_type());
    return out;
  }

 private:
  at::Tensor along(const Layer& layer) const { return layer.along_outputs(factors_.flatten()); }

  at::Tensor factors_;
  bool is_feed_forward_;
};

}  // namespace

PartPointer make_ia3(at::Tensor factors, bool is_feed_forward) { return std::make_shared<Ia3>(std::move(factors), is_feed_forward); }

}  // namespace tenon::adapters
