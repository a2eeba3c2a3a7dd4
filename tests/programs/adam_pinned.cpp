// Adam with amsgrad whose step counter is reset before each call, so that its constants stay the same.
#include "support/program.h"

namespace tenon::test {

struct AdamPinned : Program {
  torch::nn::Linear fc{8, 3};
  torch::optim::Adam optimizer{fc->parameters(), torch::optim::AdamOptions(0.01).amsgrad(true)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8}), torch::randn({shape ? 6 : 4, 3})}; }
  void before(int call) override {
    for (auto& [p, moments] : optimizer.state()) static_cast<torch::optim::AdamParamState&>(*moments).step(3);
  }
  Tensors run(const Tensors& in) override {
    optimizer.zero_grad();
    auto loss = torch::mse_loss(fc->forward(in[0]), in[1]);
    loss.backward();
    optimizer.step();
    return {loss};
  }
  Tensors state() override {
    Tensors all = fc->parameters();
    for (auto& p : fc->parameters()) {
      auto found = optimizer.state().find(p.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) continue;
      auto& moments = static_cast<torch::optim::AdamParamState&>(*found->second);
      all.insert(all.end(), {moments.exp_avg(), moments.exp_avg_sq(), moments.max_exp_avg_sq()});
    }
    return all;
  }
};
TENON_PROGRAM(AdamPinned);

}  // namespace tenon::test
