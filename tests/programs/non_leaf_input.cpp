// The input has autograd history, and its gradient flows on through it.
#include "support/program.h"

namespace tenon::test {

struct NonLeafInput : Program {
  torch::nn::Linear fc{8, 4};
  torch::Tensor base;

  Tensors inputs(int shape) override {
    base = torch::randn({shape ? 5 : 3, 8}).requires_grad_();
    return {base.exp()};
  }
  Tensors run(const Tensors& in) override { return {fc->forward(in[0]).tanh() + in[0].sum()}; }
  Tensors state() override { return {fc->weight, fc->bias, base}; }
};
TENON_PROGRAM(NonLeafInput);

}  // namespace tenon::test
