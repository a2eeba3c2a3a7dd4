// A hook writes to a buffer.
#include "traps/trap.h"

namespace tenon::test {

struct HookThatWrites : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto h = fc(x).relu();
    h.register_hook([this](torch::Tensor g) {
      buffer.add_(g.sum(0));
      return g + 1;
    });
    auto loss = fc2(h).pow(2).sum();
    loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(HookThatWrites);

}  // namespace tenon::test
