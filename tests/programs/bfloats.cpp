// Parameters and data in bfloat16.
#include "support/program.h"

namespace tenon::test {

struct Bfloats : Program {
  torch::nn::Linear fc{8, 8};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({8})};

  Bfloats() {
    fc->to(torch::kBFloat16);
    norm->to(torch::kBFloat16);
  }
  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8}).to(torch::kBFloat16)}; }
  Tensors run(const Tensors& in) override { return {torch::softmax(norm->forward(torch::silu(fc->forward(in[0]))), -1)}; }
  Tensors state() override { return {fc->weight, fc->bias, norm->weight, norm->bias}; }
};
TENON_PROGRAM(Bfloats);

}  // namespace tenon::test
