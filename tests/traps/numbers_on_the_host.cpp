// item() feeds back as a constant.
#include "traps/trap.h"

namespace tenon::test {

struct NumbersOnTheHost : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    double mean = h.mean().item<double>();
    seen.push_back(mean);
    return fc2(h - mean) * (mean > 0 ? 2 : 3);
  }
};
TENON_PROGRAM(NumbersOnTheHost);

}  // namespace tenon::test
