// An int member decides how often a loop runs.
#include "traps/trap.h"

namespace tenon::test {

struct HiddenLoopCount : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = x;
    for (int i = 0; i < 1 + call % 4; ++i) h = fc(h).tanh();
    return h;
  }
};
TENON_PROGRAM(HiddenLoopCount);

}  // namespace tenon::test
