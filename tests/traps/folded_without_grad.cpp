// With grad mode off, whether a product is folded still depends on who could require grad.
#include "traps/trap.h"

namespace tenon::test {

struct FoldedWithoutGrad : Trap {
  void around(const std::function<void()>& run) override {
    torch::NoGradGuard off;
    run();
  }
  torch::Tensor body(torch::Tensor x) override {
    auto h = x.view({2, -1, 8}).transpose(0, 1).detach();
    h.set_requires_grad(call % 4 == 3);
    return h.matmul(fc->weight);
  }
};
TENON_PROGRAM(FoldedWithoutGrad);

}  // namespace tenon::test
