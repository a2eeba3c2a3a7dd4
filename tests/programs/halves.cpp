// Parameters and data in half, a sum in float.
#include "support/program.h"

namespace tenon::test {

struct Halves : Program {
  torch::Tensor w = torch::randn({8, 4}).to(torch::kHalf).requires_grad_();

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8}).to(torch::kHalf)}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::tanh(torch::mm(in[0], w)) * 3;
    return {h, h.sum(1, false, torch::kFloat)};
  }
  Tensors state() override { return {w}; }
};
TENON_PROGRAM(Halves);

}  // namespace tenon::test
