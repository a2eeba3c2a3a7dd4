// A training step with RMSprop, which counts its steps but does not compute with the count.
#include "support/program.h"

namespace tenon::test {

struct RmspropStep : Program {
  torch::nn::Linear fc{8, 3};
  torch::optim::RMSprop optimizer{fc->parameters(), torch::optim::RMSpropOptions(0.01).momentum(0.9).centered(true)};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8}), torch::randn({shape ? 6 : 4, 3})}; }
  Tensors run(const Tensors& in) override {
    optimizer.zero_grad();
    auto loss = torch::l1_loss(fc->forward(in[0]), in[1]);
    loss.backward();
    optimizer.step();
    return {loss};
  }
  Tensors state() override {
    Tensors all = fc->parameters();
    for (auto& p : fc->parameters()) {
      auto found = optimizer.state().find(p.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) continue;
      auto& averages = static_cast<torch::optim::RMSpropParamState&>(*found->second);
      all.insert(all.end(), {averages.square_avg(), averages.momentum_buffer(), averages.grad_avg()});
    }
    return all;
  }
};
TENON_PROGRAM(RmspropStep);

}  // namespace tenon::test
