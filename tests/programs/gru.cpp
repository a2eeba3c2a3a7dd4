// A two-layer GRU, batch first.
#include "support/program.h"

namespace tenon::test {

struct Gru : Program {
  torch::nn::GRU net{torch::nn::GRUOptions(6, 8).num_layers(2).batch_first(true)};

  Tensors inputs(int shape) override { return {torch::randn({2, shape ? 5 : 3, 6})}; }
  Tensors run(const Tensors& in) override {
    auto [output, h] = net->forward(in[0]);
    return {output, h};
  }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(Gru);

}  // namespace tenon::test
