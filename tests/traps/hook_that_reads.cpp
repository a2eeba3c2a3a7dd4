// A hook reads its gradient on the host.
#include "traps/trap.h"

namespace tenon::test {

struct HookThatReads : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto h = fc(x);
    h.register_hook([this](torch::Tensor g) {
      seen.push_back(g.norm().item<double>());
      return g * 0.5;
    });
    auto loss = fc2(h).pow(2).sum();
    loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(HookThatReads);

}  // namespace tenon::test
