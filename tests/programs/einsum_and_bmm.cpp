// Batched matrix products through several APIs.
#include "support/program.h"

namespace tenon::test {

struct EinsumAndBmm : Program {
  torch::Tensor w = torch::randn({3, 4, 5}).requires_grad_(), b = torch::randn({3, 1, 5}).requires_grad_();

  Tensors inputs(int shape) override { return {torch::randn({3, shape ? 6 : 2, 4})}; }
  Tensors run(const Tensors& in) override {
    auto x = in[0];
    return {torch::einsum("bij,bjk->bik", {x, w}), torch::bmm(x, w),
            torch::baddbmm(b, x, w, 0.5, 2.0),     torch::einsum("bij,bkj->ik", {x, x}),
            torch::matmul(x[0], w).sum(0),         torch::addmm(b[0], x[1], w[1]),
            torch::tensordot(x, w, {0, 2}, {0, 1})};
  }
  Tensors state() override { return {w, b}; }
};
TENON_PROGRAM(EinsumAndBmm);

}  // namespace tenon::test
