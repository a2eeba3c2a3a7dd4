// The second input is the transpose of the first: a write to one is visible in the other.
#include "support/program.h"

namespace tenon::test {

struct InputIsViewOfInput : Program {
  torch::Tensor w = torch::randn({4, 4}).requires_grad_();

  Tensors inputs(int shape) override {
    auto x = torch::randn({shape ? 5 : 3, 4});
    return {x, x.t()};
  }
  Tensors run(const Tensors& in) override {
    in[1][0].add_(1);
    auto y = torch::mm(in[0].clone(), w);
    in[0][0].zero_();
    return {y, in[1].sum(1)};
  }
  Tensors state() override { return {w}; }
};
TENON_PROGRAM(InputIsViewOfInput);

}  // namespace tenon::test
