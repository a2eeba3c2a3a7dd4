// The learning rate changes between calls.
#include "traps/trap.h"

namespace tenon::test {

struct LearningRateSchedule : Trap {
  torch::optim::SGD optimizer{parameters(), torch::optim::SGDOptions(0.05)};

  torch::Tensor body(torch::Tensor x) override {
    static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options()).lr(0.1 / (call + 1));
    optimizer.zero_grad();
    auto loss = fc2(fc(x)).pow(2).mean();
    loss.backward();
    optimizer.step();
    return loss.detach();
  }
};
TENON_PROGRAM(LearningRateSchedule);

}  // namespace tenon::test
