// A custom autograd function with a constant in saved_data and a backward that is not the derivative.
#include "support/program.h"

namespace tenon::test {

struct ScaledTanh : torch::autograd::Function<ScaledTanh> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor x, double scale) {
    auto y = torch::tanh(x * scale);
    context->save_for_backward({y});
    context->saved_data["scale"] = scale;
    return y;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context, torch::autograd::tensor_list gradients) {
    auto y = context->get_saved_variables()[0];
    double scale = context->saved_data["scale"].toDouble();
    return {gradients[0] * (1 - y) * scale, torch::Tensor()};
  }
};

struct CustomFunction : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override { return {ScaledTanh::apply(fc->forward(in[0]), 0.7) * 2}; }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(CustomFunction);

}  // namespace tenon::test
