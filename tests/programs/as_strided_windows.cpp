// Overlapping windows from as_strided and unfold, one of them written.
#include "support/program.h"

namespace tenon::test {

struct AsStridedWindows : Program {
  torch::Tensor w = torch::randn({4}).requires_grad_();

  Tensors inputs(int shape) override { return {torch::randn({shape ? 12 : 8})}; }
  Tensors run(const Tensors& in) override {
    auto windows = in[0].unfold(0, 4, 2);
    auto y = torch::mv(windows, w);
    auto copy = in[0].clone();
    copy.as_strided({2, 2}, {4, 1}, 1).add_(5);
    return {y, copy, copy.as_strided({3, 2}, {2, 1}) * 2};
  }
  Tensors state() override { return {w}; }
};
TENON_PROGRAM(AsStridedWindows);

}  // namespace tenon::test
