// Only the optimizer's step: the gradients exist before the call.
#include "support/program.h"

namespace tenon::test {

struct OptimizerOnly : Program {
  torch::nn::Linear fc{8, 3};
  torch::optim::SGD optimizer{fc->parameters(), torch::optim::SGDOptions(0.1).momentum(0.5)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 3 : 1})}; }
  void around(const std::function<void()>& call) override {
    for (auto& p : fc->parameters()) p.mutable_grad() = torch::randn_like(p);
    call();
  }
  Tensors run(const Tensors& in) override {
    optimizer.step();
    return {in[0] + fc->bias.detach().sum()};
  }
  Tensors state() override { return fc->parameters(); }
  std::string never_served() override {
    return "capture only sees p.data() and new gradients and cannot identify their owner; OptimizerOnlyWatched watches the module";
  }
};
TENON_PROGRAM(OptimizerOnly);

}  // namespace tenon::test
