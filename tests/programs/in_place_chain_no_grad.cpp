// Chains of in-place ops on views of an input and of a fresh tensor, without gradients.
#include "support/program.h"

namespace tenon::test {

struct InPlaceChainNoGrad : Program {
  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8})}; }
  void around(const std::function<void()>& call) override {
    torch::NoGradGuard off;
    call();
  }
  Tensors run(const Tensors& in) override {
    auto x = in[0];
    auto row = x[1], columns = x.slice(1, 0, 8, 2), transposed = x.t();
    row.mul_(2).add_(1);
    columns.sub_(row.slice(0, 0, 4).clone());
    transposed[3].copy_(x.sum(1));
    auto fresh = torch::zeros({4, 4});
    fresh.diagonal().fill_(2).add_(row.narrow(0, 0, 4));
    fresh.view({2, 8})[0].clamp_(-1, 1);
    return {fresh, columns, transposed.clone()};
  }
};
TENON_PROGRAM(InPlaceChainNoGrad);

}  // namespace tenon::test
