// Two buffers are swapped.
#include "traps/trap.h"

namespace tenon::test {

struct SwappedBuffers : Trap {
  torch::Tensor a = torch::ones({8}), b = torch::zeros({8});

  torch::Tensor body(torch::Tensor x) override {
    if (call % 3 == 2) std::swap(a, b);
    a.add_(1);
    return fc(x * a + b);
  }
  Tensors state() override {
    Tensors all = Trap::state();
    all.insert(all.end(), {a, b});
    return all;
  }
};
TENON_PROGRAM(SwappedBuffers);

}  // namespace tenon::test
