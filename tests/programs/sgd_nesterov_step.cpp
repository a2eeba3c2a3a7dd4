// A training step with SGD, Nesterov momentum and weight decay.
#include "support/program.h"

namespace tenon::test {

struct SgdNesterovStep : Program {
  torch::nn::Linear fc{8, 3};
  torch::optim::SGD optimizer{fc->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8}), torch::randint(0, 3, {shape ? 6 : 4})}; }
  Tensors run(const Tensors& in) override {
    optimizer.zero_grad();
    auto loss = torch::cross_entropy_loss(fc->forward(in[0]), in[1]);
    loss.backward();
    optimizer.step();
    return {loss};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(SgdNesterovStep);

}  // namespace tenon::test
