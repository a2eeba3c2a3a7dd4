// A bool member that flips late decides a branch.
#include "traps/trap.h"

namespace tenon::test {

struct HiddenBoolBranch : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    if (call > 4) h = -h;
    return fc2(h);
  }
};
TENON_PROGRAM(HiddenBoolBranch);

}  // namespace tenon::test
