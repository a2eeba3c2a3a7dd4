// A plain multilayer perceptron in grad mode.
#include "support/program.h"

namespace tenon::test {

struct Mlp : Program {
  torch::nn::Sequential net{torch::nn::Linear(8, 16), torch::nn::Tanh(), torch::nn::Linear(16, 4)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override { return {net->forward(in[0])}; }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(Mlp);

}  // namespace tenon::test
