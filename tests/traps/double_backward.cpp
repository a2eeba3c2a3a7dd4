// The program computes the gradient of a gradient.
#include "traps/trap.h"

namespace tenon::test {

struct DoubleBackward : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto leaf = x.detach().requires_grad_();
    auto loss = fc2(fc(leaf).tanh()).sum();
    auto g = torch::autograd::grad({loss}, {leaf}, {}, true, true)[0];
    auto total = loss + g.pow(2).sum();
    total.backward();
    return total.detach();
  }
};
TENON_PROGRAM(DoubleBackward);

}  // namespace tenon::test
