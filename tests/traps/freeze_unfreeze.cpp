// Parameters are frozen and unfrozen.
#include "traps/trap.h"

namespace tenon::test {

struct FreezeUnfreeze : Trap {
  torch::Tensor body(torch::Tensor x) override { return fc2(fc(x).relu()); }
  void before(int index) override {
    call = index;
    fc->weight.set_requires_grad(call / 2 % 2 == 0);
    fc2->bias.set_requires_grad(call % 3 != 0);
  }
};
TENON_PROGRAM(FreezeUnfreeze);

}  // namespace tenon::test
