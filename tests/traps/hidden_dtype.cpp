// A member decides an element type.
#include "traps/trap.h"

namespace tenon::test {

struct HiddenDtype : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x).to(call % 2 ? torch::kDouble : torch::kFloat);
    return h * h;
  }
};
TENON_PROGRAM(HiddenDtype);

}  // namespace tenon::test
