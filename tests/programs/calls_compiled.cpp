// The program calls another compiled function.
#include "support/program.h"

namespace tenon::test {

struct CallsCompiled : Program {
  torch::nn::Linear first{8, 8}, second{8, 4};
  std::function<torch::Tensor(const torch::Tensor&)> inner;

  CallsCompiled() {
    inner = tenon::compile([this](const torch::Tensor& x) { return torch::tanh(first->forward(x)); });
  }
  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override { return {second->forward(inner(inner(in[0])) + in[0])}; }
  Tensors state() override { return {first->weight, first->bias, second->weight, second->bias}; }
};
TENON_PROGRAM(CallsCompiled);

}  // namespace tenon::test
