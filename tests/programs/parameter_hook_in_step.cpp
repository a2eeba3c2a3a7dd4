// A hook on a parameter runs in a backward inside the call.
#include "support/program.h"

namespace tenon::test {

struct ParameterHookInStep : Program {
  torch::nn::Linear fc{8, 4};
  torch::optim::SGD optimizer{fc->parameters(), 0.1};

  ParameterHookInStep() {
    fc->weight.register_hook([](torch::Tensor gradient) { return gradient.clamp(-0.1, 0.1); });
  }
  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    optimizer.zero_grad();
    auto loss = fc->forward(in[0]).pow(2).sum();
    loss.backward();
    optimizer.step();
    return {loss};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(ParameterHookInStep);

}  // namespace tenon::test
