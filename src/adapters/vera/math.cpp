#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "adapters/input_dropout.h"
#include "adapters/vera/vera.h"

namespace tenon::adapters {

namespace {

class Vera : public Cloneable<Vera> {
 public:
  Vera(VeraTensors t, double dropout) : t_(std::move(t)), dropout_(dropout) {}

  std::vector<TensorField> tensor_fields() override { return {{"vera_lambda_b", &t_.lambda_b}, {"vera_lambda_d", &t_.lambda_d}}; }
  bool is_additive() const override { return true; }
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor&, const Layer& layer,
                             double factor) const override {
    at::Tensor inner = at::linear(drop_input(x.to(t_.a.scalar_type())), t_.a.narrow(1, 0, layer.inputs())) * t_.lambda_d;
    at::Tensor added = at::linear(inner, t_.b.narrow(0, 0, layer.outputs())) * t_.lambda_b;
    return (y + added * factor).to(y.scalar_type());
  }
  bool has_low_rank() const override { return t_.a.scalar_type() == at::kFloat && t_.lambda_b.scalar_type() == at::kFloat; }
  LowRank low_rank(double factor) const override { return {t_.a, t_.b, t_.lambda_d, t_.lambda_b, factor}; }
  bool draws_in_training() const override { return dropout_.is_on(); }
  LayerAdapterPointer dropping(const at::Tensor& x, const Layer&, const at::Generator& generator) const override {
    auto out = copy();
    static_cast<Vera&>(*out).dropout_.draw(x, generator);
    return out;
  }
  at::Tensor drop_input(const at::Tensor& x) const override { return dropout_.apply(x); }
  Base merged(const Layer& layer, double factor) const override {
    at::Tensor a = t_.a.narrow(1, 0, layer.inputs()) * t_.lambda_d.unsqueeze(1),
               b = t_.b.narrow(0, 0, layer.outputs()) * t_.lambda_b.unsqueeze(1);
    at::Tensor delta = b.matmul(a) * factor;
    if (layer.kind == LayerKind::conv1d) delta = delta.t();
    return {layer.base.weight + delta.to(layer.base.weight.scalar_type()), layer.base.bias};
  }

 private:
  VeraTensors t_;
  InputDropout dropout_;
};

}  // namespace

std::pair<at::Tensor, at::Tensor> make_projections(const VeraFields& config, const ChosenLayers& chosen) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(config.key));
  auto [inputs, outputs] = vera_sizes(chosen);
  auto draw = [&](int64_t rows, int64_t columns) {
    double bound = std::sqrt(3.0) * (std::sqrt(2.0) / std::sqrt(static_cast<double>(columns)));  // PEFT's order of operations.
    at::Tensor out = at::empty({rows, columns}, at::kFloat).uniform_(-bound, bound, generator);
    chosen.for_each([&](const Layer& layer) { out = out.to(layer.base.weight.scalar_type()); });
    return to_column_major(widened(out));
  };
  at::Tensor a = draw(config.r, inputs);
  return {a, draw(outputs, config.r)};
}

LayerAdapterPointer make_vera(VeraTensors tensors, double dropout) { return std::make_shared<Vera>(std::move(tensors), dropout); }

}  // namespace tenon::adapters
