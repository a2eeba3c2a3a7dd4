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
  Tensors inputs(int shape) override {
    auto tenth = torch::full({}, 0.1);
    return {torch::randn({shape ? 5 : 3, 8}).to(torch::kBFloat16), tenth.to(torch::kBFloat16).expand({8}).clone(), tenth};
  }
  // What is compared with a bfloat16 is rounded to one first.
  Tensors run(const Tensors& in) override {
    return {torch::softmax(norm->forward(torch::silu(fc->forward(in[0]))), -1), in[1].eq(0.1), in[1].eq(in[2])};
  }
  Tensors state() override { return {fc->weight, fc->bias, norm->weight, norm->bias}; }
};
TENON_PROGRAM(Bfloats);

}  // namespace tenon::test
