// The optimizer is replaced after half of the calls.
#include "traps/trap.h"

namespace tenon::test {

struct OptimizerSwap : Trap {
  torch::optim::SGD first{parameters(), torch::optim::SGDOptions(0.05).momentum(0.9)};
  torch::optim::AdamW second{parameters(), torch::optim::AdamWOptions(0.01)};

  torch::Tensor body(torch::Tensor x) override {
    torch::optim::Optimizer& now = call < 5 ? static_cast<torch::optim::Optimizer&>(first) : second;
    now.zero_grad();
    auto loss = fc2(fc(x).relu()).pow(2).mean();
    loss.backward();
    now.step();
    return loss.detach();
  }
};
TENON_PROGRAM(OptimizerSwap);

}  // namespace tenon::test
