// An intermediate result escapes with its autograd history.
#include "traps/trap.h"

namespace tenon::test {

struct KeptWithHistory : Trap {
  torch::Tensor body(torch::Tensor x) override {
    torch::Tensor old = kept;
    auto h = fc(x);
    kept = h;
    auto y = fc2(h.detach());
    if (old.defined()) seen.push_back(old.sum().item<double>());
    return y;
  }
};
TENON_PROGRAM(KeptWithHistory);

}  // namespace tenon::test
