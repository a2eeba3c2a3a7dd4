// An encoder in train mode: dropout draws from the generator in every layer.
#include "support/program.h"

namespace tenon::test {

struct TransformerEncoderDropout : Program {
  torch::nn::TransformerEncoder net{torch::nn::TransformerEncoderOptions(
      torch::nn::TransformerEncoderLayer(torch::nn::TransformerEncoderLayerOptions(16, 2).dim_feedforward(32).dropout(0.1)), 2)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 2, 16})}; }
  Tensors run(const Tensors& in) override { return {net->forward(in[0])}; }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(TransformerEncoderDropout);

}  // namespace tenon::test
