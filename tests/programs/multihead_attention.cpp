// Cross-attention with torch::nn::MultiheadAttention, including its attention weights.
#include "support/program.h"

namespace tenon::test {

struct MultiheadAttentionCross : Program {
  torch::nn::MultiheadAttention net{torch::nn::MultiheadAttentionOptions(16, 4)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 2, 16}), torch::randn({4, 2, 16})}; }
  Tensors run(const Tensors& in) override {
    auto [output, weights] = net->forward(in[0], in[1], in[1]);
    return {output, weights};
  }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(MultiheadAttentionCross);

}  // namespace tenon::test
