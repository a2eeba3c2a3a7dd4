// The embedding matrix is also the output projection: one leaf, two uses, one gradient.
#include "support/program.h"

namespace tenon::test {

struct TiedWeights : Program {
  torch::nn::Embedding embedding{10, 8};
  torch::nn::Linear fc{8, 8};

  Tensors inputs(int shape) override { return {torch::randint(0, 10, {2, shape ? 5 : 3})}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::tanh(fc->forward(embedding->forward(in[0])));
    return {torch::log_softmax(torch::matmul(h, embedding->weight.t()), -1)};
  }
  Tensors state() override { return {embedding->weight, fc->weight, fc->bias}; }
};
TENON_PROGRAM(TiedWeights);

}  // namespace tenon::test
