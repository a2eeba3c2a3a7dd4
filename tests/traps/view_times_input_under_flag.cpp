// On every other call a view is multiplied by a slice of the input.
#include "traps/trap.h"

namespace tenon::test {

struct ViewTimesInputUnderFlag : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto h = fc(x).tanh() * 2;
    auto v = h.narrow(1, 0, 4);
    if (call % 2) v.mul_(x.narrow(1, 0, 4));
    return fc2(h).pow(2).sum();
  }
};
TENON_PROGRAM(ViewTimesInputUnderFlag);

}  // namespace tenon::test
