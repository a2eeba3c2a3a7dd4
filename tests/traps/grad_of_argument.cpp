// The argument requires grad on some calls.
#include "traps/trap.h"

namespace tenon::test {

struct GradOfArgument : Trap {
  torch::Tensor body(torch::Tensor x) override { return fc2(fc(x).tanh()); }
  Tensors inputs(int shape) override { return {torch::randn({4, 8}).requires_grad_(call % 3 == 1)}; }
};
TENON_PROGRAM(GradOfArgument);

}  // namespace tenon::test
