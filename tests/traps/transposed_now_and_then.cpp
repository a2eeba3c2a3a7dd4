// The argument's strides change.
#include "traps/trap.h"

namespace tenon::test {

struct TransposedNowAndThen : Trap {
  torch::Tensor body(torch::Tensor x) override { return fc2(fc(x)); }
  Tensors inputs(int) override { return {call % 3 == 1 ? torch::randn({8, 8}).t() : torch::randn({8, 8})}; }
};
TENON_PROGRAM(TransposedNowAndThen);

}  // namespace tenon::test
