// A two-layer LSTM that returns its output and both states.
#include "support/program.h"

namespace tenon::test {

struct Lstm : Program {
  torch::nn::LSTM net{torch::nn::LSTMOptions(6, 8).num_layers(2)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 2, 6})}; }
  Tensors run(const Tensors& in) override {
    auto [output, states] = net->forward(in[0]);
    auto [h, c] = states;
    return {output, h, c};
  }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(Lstm);

}  // namespace tenon::test
