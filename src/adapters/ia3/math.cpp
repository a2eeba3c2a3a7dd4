#include <ATen/TensorOperators.h>

#include "adapters/ia3/ia3.h"

namespace tenon::adapters {

namespace {

class Ia3 : public Cloneable<Ia3> {
 public:
  Ia3(at::Tensor factors, bool is_feed_forward) : factors_(std::move(factors)), is_feed_forward_(is_feed_forward) {}

  std::vector<TensorField> tensor_fields() override { return {{"ia3_l", &factors_}}; }
  bool has_scale() const override { return false; }
  bool is_additive() const override { return is_feed_forward_; }
  bool is_input_transform() const override { return is_feed_forward_; }
  at::Tensor transform_input(const at::Tensor& x, const at::Tensor&, const Layer& layer) const override {
    return is_feed_forward_ ? (x * along(layer)).to(x.scalar_type()) : x;
  }
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor&, const at::Tensor&, const Layer& layer, double) const override {
    return is_feed_forward_ ? y : (y * along(layer)).to(y.scalar_type());
  }
  Base merged(const Layer& layer, double) const override {
    // Whether the factors scale the first dimension of the weight.
    bool is_first = is_feed_forward_ == (layer.kind == LayerKind::conv1d);
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

LayerAdapterPointer make_ia3(at::Tensor factors, bool is_feed_forward) {
  return std::make_shared<Ia3>(std::move(factors), is_feed_forward);
}

}  // namespace tenon::adapters
