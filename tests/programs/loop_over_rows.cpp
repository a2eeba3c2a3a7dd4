// The program computes with a size, and loops once per row.
#include "support/program.h"

namespace tenon::test {

struct LoopOverRows : Program {
  torch::nn::Linear fc{8, 8};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = in[0];
    for (int64_t i = 0; i < h.size(0); ++i) h = torch::tanh(fc->forward(h)) / static_cast<double>(i + 1);
    return {h.sum() / h.numel()};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(LoopOverRows);

}  // namespace tenon::test
