// A buffer is resized inside the call.
#include "traps/trap.h"

namespace tenon::test {

struct ResizedBuffer : Trap {
  torch::Tensor scratch = torch::zeros({2, 2});

  torch::Tensor body(torch::Tensor x) override {
    scratch.resize_({4 + call % 3, 2});
    scratch.fill_(call);
    return fc(x) * scratch.sum();
  }
};
TENON_PROGRAM(ResizedBuffer);

}  // namespace tenon::test
