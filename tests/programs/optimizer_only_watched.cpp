// Only the optimizer's step, on a network that is watched.
#include "support/program.h"

namespace tenon::test {

struct OptimizerOnlyWatched : Program {
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
  std::vector<Watched> watch() override { return {fc}; }
};
TENON_PROGRAM(OptimizerOnlyWatched);

}  // namespace tenon::test
