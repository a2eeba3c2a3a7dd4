#include <ATen/TensorOperators.h>

#include "adapters/adalora/adalora.h"
#include "adapters/input_dropout.h"

namespace tenon::adapters {

namespace {

class Adalora : public Cloneable<Adalora, Delta> {
 public:
  Adalora(at::Tensor a, at::Tensor e, at::Tensor b, double scale, double dropout)
      : a_(std::move(a)), e_(std::move(e)), b_(std::move(b)), scale_(scale), dropout_(dropout) {}

  std::vector<TensorField> tensor_fields() override { return {{"lora_A", &a_}, {"lora_E", &e_}, {"lora_B", &b_}}; }
  bool has_low_rank() const override { return a_.scalar_type() == at::kFloat; }
  LowRank low_rank(double factor) const override { return {a_, b_, e_, {}, scale_ * factor}; }
  bool draws_in_training() const override { return dropout_.is_on(); }
  LayerAdapterPointer dropping(const at::Tensor& x, const Layer&, const at::Generator& generator) const override {
    auto out = copy();
    static_cast<Adalora&>(*out).dropout_.draw(x, generator);
    return out;
  }
  at::Tensor drop_input(const at::Tensor& x) const override { return dropout_.apply(x); }

 protected:
  at::Tensor delta(const Layer& layer) const override {
    at::Tensor out = b_.matmul(a_ * e_) * scale_;
    return layer.kind == LayerKind::conv2d ? out.view(layer.base.weight.sizes()) : out;
  }

  void prepack() override { a_ = to_column_major(a_), b_ = to_column_major(b_); }

 private:
  at::Tensor a_, e_, b_;
  double scale_;
  InputDropout dropout_;
};

}  // namespace

LayerAdapterPointer make_adalora(at::Tensor a, at::Tensor e, at::Tensor b, double scale, double dropout) {
  return std::make_shared<Adalora>(std::move(a), std::move(e), std::move(b), scale, dropout);
}

}  // namespace tenon::adapters
