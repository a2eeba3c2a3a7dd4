// LBFGS calls the program's closure a variable number of times.
#include "traps/trap.h"

namespace tenon::test {

struct Lbfgs : Trap {
  torch::optim::LBFGS optimizer{parameters(), torch::optim::LBFGSOptions(0.1).max_iter(3)};

  torch::Tensor body(torch::Tensor x) override {
    auto closure = [&] {
      optimizer.zero_grad();
      auto loss = fc2(fc(x).tanh()).pow(2).mean();
      loss.backward();
      return loss;
    };
    return optimizer.step(closure).detach();
  }
};
TENON_PROGRAM(Lbfgs);

}  // namespace tenon::test
