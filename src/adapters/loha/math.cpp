#include <ATen/ops/einsum.h>
#include <ATen/TensorOperators.h>

#include "adapters/loha/loha.h"

namespace tenon::adapters {

namespace {

class Loha : public Cloneable<Loha, Delta> {
 public:
  Loha(LohaFactor first, LohaFactor second, double scale) : first_(std::move(first)), second_(std::move(second)), scale_(scale) {}

  std::vector<TensorField> tensor_fields() override {
    std::vector<TensorField> out = {
        {"hada_w1_a", &first_.a}, {"hada_w1_b", &first_.b}, {"hada_w2_a", &second_.a}, {"hada_w2_b", &second_.b}};
    if (first_.t.defined()) out.insert(out.end(), {{"hada_t1", &first_.t}, {"hada_t2", &second_.t}});
    return out;
  }

 protected:
  at::Tensor delta(const Layer& layer) const override {
    at::Tensor out = first_.product() * second_.product() * scale_;
    return layer.kind == LayerKind::conv2d ? out.view(layer.base.weight.sizes()) : out;
  }

 private:
  LohaFactor first_, second_;
  double scale_;
};

}  // namespace

at::Tensor over_kernel(const at::Tensor& t, const at::Tensor& a, const at::Tensor& b) { return at::einsum("ijkl,ip,jq->pqkl", {t, a, b}); }

at::Tensor LohaFactor::product() const { return t.defined() ? over_kernel(t, a, b) : a.matmul(b); }

LayerAdapterPointer make_loha(LohaFactor first, LohaFactor second, double scale) {
  return std::make_shared<Loha>(std::move(first), std::move(second), scale);
}

}  // namespace tenon::adapters
