#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "adapters/vera/vera.h"

namespace tenon::adapters {

namespace {

class Vera : public Cloneable<Vera> {
 public:
  explicit Vera(VeraTensors t) : t_(std::move(t)) {}

  std::vector<TensorField> tensor_fields() override { return {{"vera_lambda_b", &t_.lambda_b}, {"vera_lambda_d", &t_.lambda_d}}; }
  bool is_additive() const override { return true; }
  at::Tensor apply_to_output(const at::Tensor& y, const at::Tensor& x, const at::Tensor&, const Layer& layer,
                             double factor) const override {
    at::Tensor inner = at::linear(x.to(t_.a.scalar_type()), t_.a.narrow(1, 0, layer.inputs())) * t_.lambda_d;
    at::Tensor added = at::linear(inner, t_.b.narrow(0, 0, layer.outputs())) * t_.lambda_b;
    return (y + added * factor).to(y.scalar_type());
  }
  bool has_low_rank() const override { return t_.a.scalar_type() == at::kFloat && t_.lambda_b.scalar_type() == at::kFloat; }
  LowRank low_rank(double factor) const override { return {t_.a, t_.b, t_.lambda_d, t_.lambda_b, factor}; }
  Base merged(const Layer& layer, double factor) const override {
    at::Tensor a = t_.a.narrow(1, 0, layer.inputs()) * t_.lambda_d.unsqueeze(1),
               b = t_.b.narrow(0, 0, layer.outputs()) * t_.lambda_b.unsqueeze(1);
    at::Tensor delta = b.matmul(a) * factor;
    if (layer.kind == LayerKind::conv1d) delta = delta.t();
    return {layer.base.weight + delta.to(layer.base.weight.scalar_type()), layer.base.bias};
  }

 private:
  VeraTensors t_;
};

}  // namespace

std::pair<at::Tensor, at::Tensor> make_projections(const VeraConfig& config, int64_t inputs, int64_t outputs) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(config.key));
  auto draw = [&](int64_t rows, int64_t columns) {
    double bound = std::sqrt(6.0 / static_cast<double>(columns));
    return to_column_major(at::empty({rows, columns}, at::kFloat).uniform_(-bound, bound, generator));
  };
  at::Tensor a = draw(config.r, inputs);
  return {a, draw(outputs, config.r)};
}

LayerAdapterPointer make_vera(VeraTensors tensors) { return std::make_shared<Vera>(std::move(tensors)); }

}  // namespace tenon::adapters
