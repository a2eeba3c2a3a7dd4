// An int member decides a shape.
#include "traps/trap.h"

namespace tenon::test {

struct HiddenShape : Trap {
  torch::Tensor body(torch::Tensor x) override {
    int64_t width = 2 + call % 3;
    return fc(x).narrow(1, 0, width).sum(1) * 2;
  }
};
TENON_PROGRAM(HiddenShape);

}  // namespace tenon::test
