// The result of item() becomes a constant of a later op.
#include "traps/trap.h"

namespace tenon::test {

struct ScalarsOnTheHost : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    double mean = h.mean().item<double>();
    seen.push_back(mean);
    return fc2(h - mean) * (mean > 0 ? 2 : 3);
  }
};
TENON_PROGRAM(ScalarsOnTheHost);

}  // namespace tenon::test
