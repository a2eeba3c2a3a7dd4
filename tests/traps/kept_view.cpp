// A view of an intermediate result escapes.
#include "traps/trap.h"

namespace tenon::test {

struct KeptView : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    kept = h.detach().narrow(1, 2, 3);
    return fc2(h).sum();
  }
};
TENON_PROGRAM(KeptView);

}  // namespace tenon::test
