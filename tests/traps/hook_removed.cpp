// A parameter has a hook on some calls only.
#include "traps/trap.h"

namespace tenon::test {

struct HookRemoved : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    unsigned id = 0;
    bool hooked = call % 3 != 0;
    if (hooked) id = fc->weight.register_hook([](torch::Tensor g) { return g * 3; });
    auto loss = fc2(fc(x)).pow(2).sum();
    loss.backward();
    if (hooked) fc->weight.remove_hook(id);
    return loss.detach();
  }
};
TENON_PROGRAM(HookRemoved);

}  // namespace tenon::test
