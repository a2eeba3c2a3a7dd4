#include <ATen/ops/kron.h>
#include <ATen/TensorOperators.h>

#include "adapters/lokr/lokr.h"

namespace tenon::adapters {

namespace {

class Lokr : public Cloneable<Lokr, Delta> {
 public:
  Lokr(LokrFactor first, LokrFactor second, double scale, LycorisDropout dropout)
      : first_(std::move(first)), second_(std::move(second)), scale_(scale), dropout_(std::move(dropout)) {}

  std::vector<TensorField> tensor_fields() override {
    std::vector<TensorField> out;
    add("lokr_w1", first_, out), add("lokr_w2", second_, out);
    return out;
  }

  // Linear layers never materialize the product: the large factor is applied to the input, then the small one to its results.
  at::Tensor prepare(const Layer& layer, double factor) const override {
    if (dropout_.is_skipped()) return {};
    return layer.kind == LayerKind::conv2d ? Delta::prepare(layer, factor) : second_.product() * (scale_ * factor);
  }
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor& large, const Layer& layer,
                             double factor) const override {
    if (dropout_.is_skipped()) return y;
    if (layer.kind == LayerKind::conv2d) return Delta::apply_to_output(y, x, large, layer, factor);
    at::Tensor small = first_.product(), blocked = x.to(large.scalar_type()).reshape({-1, small.size(1), large.size(1)});
    at::Tensor added = small.matmul(blocked.matmul(large.t())).view(y.sizes());
    return (y + dropout_.apply(added, added.dim() - 1)).to(y.scalar_type());
  }
  bool draws_in_training() const override { return true; }
  std::optional<double> skip_probability() const override { return dropout_.skip_probability(); }
  LayerAdapterPointer dropping(const at::Tensor&, const Layer& layer, const at::Generator& generator) const override {
    auto out = copy();
    static_cast<Lokr&>(*out).dropout_.draw(layer.outputs(), generator);
    return out;
  }

 protected:
  at::Tensor delta(const Layer& layer) const override {
    at::Tensor small = first_.product(), large = second_.product();
    if (large.dim() == 4) small = small.unsqueeze(2).unsqueeze(2);
    at::Tensor out =
        (at::kron(small, large) * scale_)
            .view(layer.kind == LayerKind::conv2d ? layer.base.weight.sizes() : at::IntArrayRef{layer.outputs(), layer.inputs()});
    return dropout_.apply(out, 0);
  }

 private:
  static void add(const std::string& name, LokrFactor& factor, std::vector<TensorField>& out) {
    if (factor.whole.defined()) out.push_back({name, &factor.whole});
    else out.insert(out.end(), {{name + "_a", &factor.a}, {name + "_b", &factor.b}});
    if (factor.t.defined()) out.push_back({"lokr_t2", &factor.t});
  }

  LokrFactor first_, second_;
  double scale_;
  LycorisDropout dropout_;
};

}  // namespace

at::Tensor LokrFactor::product() const { return whole.defined() ? whole : t.defined() ? over_kernel(t, a, b) : a.matmul(b); }

LayerAdapterPointer make_lokr(LokrFactor first, LokrFactor second, double scale, LycorisDropout dropout) {
  return std::make_shared<Lokr>(std::move(first), std::move(second), scale, std::move(dropout));
}

}  // namespace tenon::adapters
