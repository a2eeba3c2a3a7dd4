// The program reads a parameter that a deferred op writes through a const pointer.
#include "traps/trap.h"

namespace tenon::test {

struct ConstPointerOfParameter : Trap {
  torch::optim::SGD optimizer{parameters(), torch::optim::SGDOptions(0.05)};

  torch::Tensor body(torch::Tensor x) override {
    optimizer.zero_grad();
    auto loss = fc2(fc(x)).pow(2).mean();
    loss.backward();
    optimizer.step();
    seen.push_back(fc->weight.const_data_ptr<float>()[5]);
    return loss.detach();
  }
};
TENON_PROGRAM(ConstPointerOfParameter);

}  // namespace tenon::test
