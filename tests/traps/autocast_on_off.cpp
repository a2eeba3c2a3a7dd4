// Autocast is on for some calls.
#include <ATen/autocast_mode.h>

#include "traps/trap.h"

namespace tenon::test {

struct AutocastOnOff : Trap {
  torch::Tensor body(torch::Tensor x) override { return fc2(fc(x).relu()).to(torch::kFloat); }
  void around(const std::function<void()>& run) override {
    bool on = call % 3 == 1;
    at::autocast::set_autocast_enabled(at::kCPU, on);
    run();
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};
TENON_PROGRAM(AutocastOnOff);

}  // namespace tenon::test
