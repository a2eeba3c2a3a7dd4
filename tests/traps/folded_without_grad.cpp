// With grad mode off, matmul folds batch dimensions depending on which operands require grad.
#include "traps/trap.h"

namespace tenon::test {

struct FoldedWithoutGrad : Trap {
  Tensors inputs(int shape) override { return {torch::randn({7, shape ? 6 : 4, 8}).transpose(0, 1)}; }
  void around(const std::function<void()>& run) override {
    torch::NoGradGuard off;
    run();
  }
  torch::Tensor body(torch::Tensor x) override {
    auto h = x.detach();
    h.set_requires_grad(call % 4 == 3);
    auto out = h.matmul(fc->weight);
    for (int64_t stride : out.strides()) seen.push_back(static_cast<double>(stride));
    return out;
  }
};
TENON_PROGRAM(FoldedWithoutGrad);

}  // namespace tenon::test
