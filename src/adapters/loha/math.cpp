#include <ATen/ops/einsum.h>
#include <ATen/TensorOperators.h>

#include "adapters/loha/loha.h"

namespace tenon::adapters {

namespace {

class Loha : public Cloneable<Loha, Delta> {
 public:
  Loha(LohaFactor first, LohaFactor second, double scale, LycorisDropout dropout)
      : first_(std::move(first)), second_(std::move(second)), scale_(scale), dropout_(std::move(dropout)) {}

  std::vector<TensorField> tensor_fields() override {
    std::vector<TensorField> out = {
        {"hada_w1_a", &first_.a}, {"hada_w1_b", &first_.b}, {"hada_w2_a", &second_.a}, {"hada_w2_b", &second_.b}};
    if (first_.t.defined()) out.insert(out.end(), {{"hada_t1", &first_.t}, {"hada_t2", &second_.t}});
    return out;
  }
  at::Tensor prepare(const Layer& layer, double factor) const override {
    return dropout_.is_skipped() ? at::Tensor() : Delta::prepare(layer, factor);
  }
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor& by, const Layer& layer,
                             double factor) const override {
    return dropout_.is_skipped() ? y : Delta::apply_to_output(y, x, by, layer, factor);
  }
  bool draws_in_training() const override { return true; }
  std::optional<double> skip_probability() const override { return dropout_.skip_probability(); }
  LayerAdapterPointer dropping(const at::Tensor&, const Layer& layer, const at::Generator& generator) const override {
    auto out = copy();
    static_cast<Loha&>(*out).dropout_.draw(layer.outputs(), generator);
    return out;
  }

 protected:
  at::Tensor delta(const Layer& layer) const override {
    at::Tensor out = first_.product() * second_.product() * scale_;
    return dropout_.apply(layer.kind == LayerKind::conv2d ? out.view(layer.base.weight.sizes()) : out, 0);
  }

 private:
  LohaFactor first_, second_;
  double scale_;
  LycorisDropout dropout_;
};

}  // namespace

at::Tensor over_kernel(const at::Tensor& t, const at::Tensor& a, const at::Tensor& b) { return at::einsum("ijkl,ip,jq->pqkl", {t, a, b}); }

at::Tensor LohaFactor::product() const { return t.defined() ? over_kernel(t, a, b) : a.matmul(b); }

LayerAdapterPointer make_loha(LohaFactor first, LohaFactor second, double scale, LycorisDropout dropout) {
  return std::make_shared<Loha>(std::move(first), std::move(second), scale, std::move(dropout));
}

}  // namespace tenon::adapters
