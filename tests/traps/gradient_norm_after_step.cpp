// The host reads the gradient's norm after a whole training step.
#include "traps/trap.h"

namespace tenon::test {

struct GradientNormAfterStep : Trap {
  torch::optim::SGD optimizer{parameters(), torch::optim::SGDOptions(0.05).momentum(0.9)};

  torch::Tensor body(torch::Tensor x) override {
    optimizer.zero_grad();
    auto loss = fc2(fc(x).relu()).pow(2).mean();
    loss.backward();
    optimizer.step();
    seen.push_back(fc->weight.grad().norm().item<double>());
    return loss.detach();
  }
};
TENON_PROGRAM(GradientNormAfterStep);

}  // namespace tenon::test
