// An int member decides a branch.
#include "traps/trap.h"

namespace tenon::test {

struct HiddenIntBranch : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    if (call % 3 == 2) h = h.relu();
    return fc2(h);
  }
};
TENON_PROGRAM(HiddenIntBranch);

}  // namespace tenon::test
