// An embedding with a padding row, mean over words, negative log likelihood.
#include "support/program.h"

namespace tenon::test {

struct EmbeddingNll : Program {
  torch::nn::Embedding table{torch::nn::EmbeddingOptions(10, 6).padding_idx(0)};
  torch::nn::EmbeddingBag bag{torch::nn::EmbeddingBagOptions(10, 6).mode(torch::kMean)};
  torch::nn::Linear fc{6, 3};

  Tensors inputs(int shape) override { return {torch::randint(0, 10, {shape ? 5 : 3, 4}), torch::randint(0, 3, {shape ? 5 : 3})}; }
  Tensors run(const Tensors& in) override {
    auto h = table->forward(in[0]).mean(1) + bag->forward(in[0]);
    return {torch::nll_loss(torch::log_softmax(fc->forward(h), 1), in[1])};
  }
  Tensors state() override { return {table->weight, bag->weight, fc->weight, fc->bias}; }
};
TENON_PROGRAM(EmbeddingNll);

}  // namespace tenon::test
