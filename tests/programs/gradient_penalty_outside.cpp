// The gradient is computed inside the call with create_graph; the backward through it runs after the call.
#include "support/program.h"

namespace tenon::test {

struct GradientPenaltyOutside : Program {
  torch::nn::Sequential net{torch::nn::Linear(8, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8}).requires_grad_()}; }
  Tensors run(const Tensors& in) override {
    auto slope = torch::autograd::grad({net->forward(in[0]).sum()}, {in[0]}, {}, std::nullopt, /*create_graph=*/true)[0];
    return {slope.pow(2).sum()};
  }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(GradientPenaltyOutside);

}  // namespace tenon::test
