// The optimizer steps on every third call.
#include "traps/trap.h"

namespace tenon::test {

struct AccumulateEveryThird : Trap {
  torch::optim::SGD optimizer{parameters(), torch::optim::SGDOptions(0.05)};

  torch::Tensor body(torch::Tensor x) override {
    auto loss = fc2(fc(x)).pow(2).mean();
    loss.backward();
    if (call % 3 == 2) {
      optimizer.step();
      optimizer.zero_grad(call % 2 == 0);
    }
    return loss.detach();
  }
};
TENON_PROGRAM(AccumulateEveryThird);

}  // namespace tenon::test
