// Chains of in-place ops on views of an intermediate, with gradients through them.
#include "support/program.h"

namespace tenon::test {

struct InPlaceOnViews : Program {
  torch::Tensor w = torch::randn({16, 16}).requires_grad_();

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 16})}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::tanh(torch::mm(in[0], w)).clone();
    h.select(0, 1).mul_(3.0);
    h.slice(1, 0, 8).add_(h.slice(1, 8, 16));
    h.t().narrow(0, 2, 3).mul_(0.5);
    auto y = h.view({-1, 4}).relu_();
    return {y.sum(0), h.mean()};
  }
  Tensors state() override { return {w}; }
};
TENON_PROGRAM(InPlaceOnViews);

}  // namespace tenon::test
