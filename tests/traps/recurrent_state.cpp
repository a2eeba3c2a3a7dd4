// A state is read and replaced.
#include "traps/trap.h"

namespace tenon::test {

struct RecurrentState : Trap {
  torch::Tensor body(torch::Tensor x) override {
    torch::NoGradGuard off;
    auto h = fc(x).mean(0);
    if (kept.defined()) h = h + kept;
    kept = h;
    return h * 2;
  }
};
TENON_PROGRAM(RecurrentState);

}  // namespace tenon::test
