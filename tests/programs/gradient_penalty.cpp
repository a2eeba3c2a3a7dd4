// Second-order gradients: create_graph, then a backward through it, all inside the call.
#include "support/program.h"

namespace tenon::test {

struct GradientPenalty : Program {
  torch::nn::Sequential net{torch::nn::Linear(8, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto x = in[0].clone().requires_grad_();
    auto score = net->forward(x).sum();
    auto slope = torch::autograd::grad({score}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
    auto loss = score + 10 * (slope.norm(2, 1) - 1).pow(2).mean();
    loss.backward();
    return {loss.detach(), slope.detach()};
  }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(GradientPenalty);

}  // namespace tenon::test
