// A view is overwritten, under a flag, with gradients.
#include "traps/trap.h"

namespace tenon::test {

struct ViewWrittenUnderFlag : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto h = fc(x);
    auto v = h.narrow(1, 0, 4);
    if (call == 3 || call > 7) v.mul_(2);
    auto loss = fc2(h).pow(2).sum();
    loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(ViewWrittenUnderFlag);

}  // namespace tenon::test
