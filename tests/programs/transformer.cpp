// torch::nn::Transformer: encoder and decoder with a causal mask.
#include "support/program.h"

namespace tenon::test {

struct TransformerPair : Program {
  torch::nn::Transformer net{
      torch::nn::TransformerOptions(16, 2).num_encoder_layers(1).num_decoder_layers(1).dim_feedforward(32).dropout(0.0)};

  Tensors inputs(int shape) override {
    int length = shape ? 5 : 3;
    return {torch::randn({4, 2, 16}), torch::randn({length, 2, 16}), torch::nn::TransformerImpl::generate_square_subsequent_mask(length)};
  }
  Tensors run(const Tensors& in) override { return {net->forward(in[0], in[1], {}, in[2])}; }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(TransformerPair);

}  // namespace tenon::test
