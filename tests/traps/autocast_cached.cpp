// The autocast copies of weights stay cached from call to call.
#include <ATen/autocast_mode.h>

#include "traps/trap.h"

namespace tenon::test {

struct AutocastCached : Trap {
  torch::Tensor body(torch::Tensor x) override {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    auto y = fc2(fc(fc(x).relu())).to(torch::kFloat);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    if (call % 2) at::autocast::clear_cache();
    return y;
  }
};
TENON_PROGRAM(AutocastCached);

}  // namespace tenon::test
