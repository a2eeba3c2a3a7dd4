// An intermediate result escapes.
#include "traps/trap.h"

namespace tenon::test {

struct KeptResult : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    kept = h.detach();
    return fc2(h);
  }
};
TENON_PROGRAM(KeptResult);

}  // namespace tenon::test
