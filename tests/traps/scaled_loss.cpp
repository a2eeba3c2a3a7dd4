// A scalar that the autograd graph saves changes between calls.
#include "traps/trap.h"

namespace tenon::test {

struct ScaledLoss : Trap {
  double scale = 1;
  void before(int index) override {
    call = index;
    if (index % 4 == 3) scale *= 0.5;
  }
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto loss = (fc2(torch::leaky_relu(fc(x), scale * 0.1)) * scale).pow(2).sum();
    loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(ScaledLoss);

}  // namespace tenon::test
