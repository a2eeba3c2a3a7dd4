// An int member is a constant of an op.
#include "traps/trap.h"

namespace tenon::test {

struct HiddenIntConstant : Trap {
  torch::Tensor body(torch::Tensor x) override { return fc2(fc(x) + call % 3).pow(1 + call % 2); }
};
TENON_PROGRAM(HiddenIntConstant);

}  // namespace tenon::test
