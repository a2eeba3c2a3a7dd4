// Truncated backpropagation through time.
#include "traps/trap.h"

namespace tenon::test {

struct RecurrentStateDetached : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x).mean(0);
    if (kept.defined()) h = (h + kept).tanh();
    kept = h.detach();
    return fc2(h);
  }
};
TENON_PROGRAM(RecurrentStateDetached);

}  // namespace tenon::test
