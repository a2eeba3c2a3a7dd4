// Some calls disable grad mode for a few ops.
#include "traps/trap.h"

namespace tenon::test {

struct GradModeInside : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    torch::AutoGradMode mode(call % 3 != 1);
    return fc2(h);
  }
};
TENON_PROGRAM(GradModeInside);

}  // namespace tenon::test
