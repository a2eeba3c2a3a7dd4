// Some calls run in inference mode.
#include "traps/trap.h"

namespace tenon::test {

struct InferenceModeAround : Trap {
  torch::Tensor body(torch::Tensor x) override { return fc2(fc(x).relu_()); }
  void around(const std::function<void()>& run) override {
    c10::InferenceMode mode(call % 3 == 1);
    run();
  }
};
TENON_PROGRAM(InferenceModeAround);

}  // namespace tenon::test
