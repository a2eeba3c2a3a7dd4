// zero_grad, forward, loss, backward and an SGD step in one function: one graph.
#include "support/program.h"

namespace tenon::test {

struct WholeStepSgd : Program {
  torch::nn::Sequential net{torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Linear(16, 3)};
  torch::optim::SGD optimizer{net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8}), torch::randn({shape ? 6 : 4, 3})}; }
  Tensors run(const Tensors& in) override {
    optimizer.zero_grad();
    auto loss = torch::mse_loss(net->forward(in[0]), in[1]);
    loss.backward();
    optimizer.step();
    return {loss};
  }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(WholeStepSgd);

}  // namespace tenon::test
