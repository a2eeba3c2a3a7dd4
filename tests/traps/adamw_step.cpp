// A whole training step with AdamW: a step counter on the host changes two scalars in each call.
#include "traps/trap.h"

namespace tenon::test {

struct AdamWStep : Trap {
  torch::optim::AdamW optimizer{parameters(), torch::optim::AdamWOptions(0.01)};

  torch::Tensor body(torch::Tensor x) override {
    optimizer.zero_grad();
    auto loss = fc2(fc(x).relu()).pow(2).mean();
    loss.backward();
    optimizer.step();
    return loss.detach();
  }
};
TENON_PROGRAM(AdamWStep);

}  // namespace tenon::test
