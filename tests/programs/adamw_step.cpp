// A training step with AdamW, which computes with its step counter on the host.
#include "support/program.h"

namespace tenon::test {

struct AdamWStep : Program {
  torch::nn::Linear fc{8, 3};
  torch::optim::AdamW optimizer{fc->parameters(), torch::optim::AdamWOptions(0.01)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8}), torch::randn({shape ? 6 : 4, 3})}; }
  Tensors run(const Tensors& in) override {
    optimizer.zero_grad();
    auto loss = torch::smooth_l1_loss(fc->forward(in[0]), in[1]);
    loss.backward();
    optimizer.step();
    return {loss};
  }
  Tensors state() override {
    Tensors all = fc->parameters();
    for (auto& p : fc->parameters()) {
      auto found = optimizer.state().find(p.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) continue;
      auto& moments = static_cast<torch::optim::AdamWParamState&>(*found->second);
      all.insert(all.end(), {moments.exp_avg(), moments.exp_avg_sq()});
    }
    return all;
  }
  std::string never_served() override { return "the step counter changes a constant in each call"; }
};
TENON_PROGRAM(AdamWStep);

}  // namespace tenon::test
