// Gradient clipping with tensors only: no value is read on the host.
#include "support/program.h"

namespace tenon::test {

struct ClipByHand : Program {
  torch::nn::Linear fc{8, 3};
  torch::optim::SGD optimizer{fc->parameters(), 0.1};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8}), torch::randn({shape ? 6 : 4, 3})}; }
  Tensors run(const Tensors& in) override {
    optimizer.zero_grad();
    auto loss = torch::mse_loss(fc->forward(in[0]), in[1]);
    loss.backward();
    auto norm = torch::stack({fc->weight.grad().norm(), fc->bias.grad().norm()}).norm();
    auto factor = (0.5 / (norm + 1e-6)).clamp_max(1.0);
    for (auto& p : fc->parameters()) p.mutable_grad().mul_(factor);
    optimizer.step();
    return {loss, norm};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(ClipByHand);

}  // namespace tenon::test
