// A view of a detached input has the geometry of another input, which requires grad.
#include "support/program.h"

namespace tenon::test {

struct DetachedViewOfInput : Program {
  torch::Tensor w = torch::randn({4, 4}).requires_grad_();

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 4})}; }
  Tensors run(const Tensors& in) override {
    auto constant = torch::sin(w.detach().t().t());
    return {torch::mm(in[0], torch::tanh(w)) * constant.sum()};
  }
  Tensors state() override { return {w}; }
};
TENON_PROGRAM(DetachedViewOfInput);

}  // namespace tenon::test
