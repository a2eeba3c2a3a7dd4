// One vector used both as a batch norm's weight, along the channels, and as a factor along the last dimension of the same size.
#include "support/program.h"

namespace tenon::test {

struct ChannelVectors : Program {
  torch::Tensor weight = torch::randn({4}).requires_grad_(), bias = torch::randn({4}).requires_grad_();
  torch::Tensor mean = torch::zeros({4}), variance = torch::ones({4});

  Tensors inputs(int shape) override { return {torch::randn({shape ? 3 : 2, 4, 5, 4})}; }
  Tensors run(const Tensors& in) override {
    auto trained = torch::batch_norm(in[0], weight, bias, mean, variance, true, 0.1, 1e-5, false);
    auto known = torch::batch_norm(in[0], weight, bias, mean, variance, false, 0.1, 1e-5, false);
    return {torch::relu(trained) * weight, known * weight + bias};
  }
  Tensors state() override { return {weight, bias, mean, variance}; }
};
TENON_PROGRAM(ChannelVectors);

}  // namespace tenon::test
