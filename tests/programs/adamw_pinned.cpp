// AdamW on a small network whose step counter is reset before each call.
#include "support/program.h"

namespace tenon::test {

struct AdamWPinned : Program {
  torch::nn::Sequential net{torch::nn::Linear(8, 16), torch::nn::GELU(), torch::nn::Linear(16, 3)};
  torch::optim::AdamW optimizer{net->parameters(), torch::optim::AdamWOptions(0.01).weight_decay(0.1)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8}), torch::randint(0, 3, {shape ? 6 : 4})}; }
  void before(int call) override {
    for (auto& [p, moments] : optimizer.state()) static_cast<torch::optim::AdamWParamState&>(*moments).step(3);
  }
  Tensors run(const Tensors& in) override {
    optimizer.zero_grad();
    auto loss = torch::cross_entropy_loss(net->forward(in[0]), in[1]);
    loss.backward();
    optimizer.step();
    return {loss};
  }
  Tensors state() override {
    Tensors all = net->parameters();
    for (auto& p : net->parameters()) {
      auto found = optimizer.state().find(p.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) continue;
      auto& moments = static_cast<torch::optim::AdamWParamState&>(*found->second);
      all.insert(all.end(), {moments.exp_avg(), moments.exp_avg_sq()});
    }
    return all;
  }
};
TENON_PROGRAM(AdamWPinned);

}  // namespace tenon::test
