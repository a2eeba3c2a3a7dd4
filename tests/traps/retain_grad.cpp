// The program calls retain_grad() on an intermediate result.
#include "traps/trap.h"

namespace tenon::test {

struct RetainGrad : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto h = fc(x);
    h.retain_grad();
    auto loss = fc2(h).pow(2).sum();
    loss.backward();
    kept = h.grad();
    return loss.detach();
  }
};
TENON_PROGRAM(RetainGrad);

}  // namespace tenon::test
