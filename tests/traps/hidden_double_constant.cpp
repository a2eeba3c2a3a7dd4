// A double member is a constant of an op.
#include "traps/trap.h"

namespace tenon::test {

struct HiddenDoubleConstant : Trap {
  double scale = 2;

  torch::Tensor body(torch::Tensor x) override {
    scale *= 0.9;
    return fc2(fc(x) * scale).clamp(-scale, scale);
  }
};
TENON_PROGRAM(HiddenDoubleConstant);

}  // namespace tenon::test
