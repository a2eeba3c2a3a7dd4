// Tensors without dimensions: data, parameter and result.
#include "support/program.h"

namespace tenon::test {

struct ZeroDimensions : Program {
  torch::Tensor scale = torch::randn({}).requires_grad_();

  Tensors inputs(int shape) override { return {torch::randn({}), torch::randn({shape ? 5 : 3})}; }
  Tensors run(const Tensors& in) override {
    auto y = in[0] * scale + 1;
    return {y, in[1] * y, in[1].max() - y.unsqueeze(0), in[1][0] * 2, in[0].expand({2})};
  }
  Tensors state() override { return {scale}; }
};
TENON_PROGRAM(ZeroDimensions);

}  // namespace tenon::test
