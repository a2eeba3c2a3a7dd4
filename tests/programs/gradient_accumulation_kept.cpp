// Gradients that are defined before the call and accumulate.
#include "support/program.h"

namespace tenon::test {

struct GradientAccumulationKept : Program {
  torch::nn::Linear fc{8, 3};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8})}; }
  void around(const std::function<void()>& call) override {
    for (auto& p : fc->parameters())
      if (!p.grad().defined()) p.mutable_grad() = torch::ones_like(p);
    call();
  }
  Tensors run(const Tensors& in) override {
    auto loss = fc->forward(in[0]).pow(2).mean();
    loss.backward();
    return {loss.detach(), fc->bias.grad().sum()};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(GradientAccumulationKept);

}  // namespace tenon::test
