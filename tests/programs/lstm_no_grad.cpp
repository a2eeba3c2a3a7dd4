// A bidirectional LSTM for inference, with its states as inputs.
#include "support/program.h"

namespace tenon::test {

struct LstmNoGrad : Program {
  torch::nn::LSTM net{torch::nn::LSTMOptions(6, 8).bidirectional(true).batch_first(true)};

  Tensors inputs(int shape) override {
    int batch = shape ? 3 : 2;
    return {torch::randn({batch, 4, 6}), torch::randn({2, batch, 8}), torch::randn({2, batch, 8})};
  }
  void around(const std::function<void()>& call) override {
    torch::NoGradGuard off;
    call();
  }
  Tensors run(const Tensors& in) override {
    auto [output, states] = net->forward(in[0], std::make_tuple(in[1], in[2]));
    return {output, std::get<0>(states), std::get<1>(states)};
  }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(LstmNoGrad);

}  // namespace tenon::test
