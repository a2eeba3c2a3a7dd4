// Two adversarial networks: two backward passes and two optimizers in one call.
#include "support/program.h"

namespace tenon::test {

struct TwoOptimizers : Program {
  torch::nn::Linear maker{4, 8}, judge{8, 1};
  torch::optim::SGD maker_step{maker->parameters(), 0.1}, judge_step{judge->parameters(), 0.1};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8})}; }
  Tensors run(const Tensors& in) override {
    auto made = torch::tanh(maker->forward(torch::randn({in[0].size(0), 4})));
    judge_step.zero_grad();
    auto judge_loss = torch::softplus(-judge->forward(in[0])).mean() + torch::softplus(judge->forward(made.detach())).mean();
    judge_loss.backward();
    judge_step.step();
    maker_step.zero_grad();
    auto maker_loss = torch::softplus(-judge->forward(made)).mean();
    maker_loss.backward();
    maker_step.step();
    return {judge_loss.detach(), maker_loss.detach()};
  }
  Tensors state() override { return {maker->weight, maker->bias, judge->weight, judge->bias}; }
};
TENON_PROGRAM(TwoOptimizers);

}  // namespace tenon::test
