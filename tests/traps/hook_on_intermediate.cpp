// A hook on an intermediate result multiplies by a scalar that changes.
#include "traps/trap.h"

namespace tenon::test {

struct HookOnIntermediate : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    if (h.requires_grad()) h.register_hook([this](torch::Tensor g) { return g * (call + 1); });
    return fc2(h).sum();
  }
};
TENON_PROGRAM(HookOnIntermediate);

}  // namespace tenon::test
