// Two branches that look alike to every op; which of them learns changes between calls.
#include "traps/trap.h"

namespace tenon::test {

struct FrozenInTurn : Trap {
  void before(int number) override {
    call = number;
    fc->weight.set_requires_grad(number % 4 < 2);
    fc2->weight.set_requires_grad(number % 4 >= 2);
  }
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto a = torch::mm(x, fc->weight), b = torch::mm(x * 2, fc2->weight);
    auto loss = (a + b).sum();
    loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(FrozenInTurn);

}  // namespace tenon::test
