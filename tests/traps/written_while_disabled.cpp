// A tensor that the backward needs is overwritten while listening is paused.
#include <tenon/control.h>

#include "traps/trap.h"

namespace tenon::test {

struct WrittenWhileDisabled : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto h = fc(x).sigmoid();
    auto loss = fc2(h).sum();
    if (call % 4 == 3) {
      tenon::DisableScope off;
      h.detach().mul_(2);
    }
    loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(WrittenWhileDisabled);

}  // namespace tenon::test
