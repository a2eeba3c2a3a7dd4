// Two branches have the same ops; which of them requires grad alternates between calls.
#include "traps/trap.h"

namespace tenon::test {

struct FrozenAlternately : Trap {
  void before(int index) override {
    call = index;
    fc->weight.set_requires_grad(index % 4 < 2);
    fc2->weight.set_requires_grad(index % 4 >= 2);
  }
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto a = torch::mm(x, fc->weight), b = torch::mm(x * 2, fc2->weight);
    auto loss = (a + b).sum();
    loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(FrozenAlternately);

}  // namespace tenon::test
