// libtorch's own gradient clipping, which returns the norm as a double.
#include "support/program.h"

namespace tenon::test {

struct ClipGradNorm : Program {
  torch::nn::Linear fc{8, 3};
  torch::optim::SGD optimizer{fc->parameters(), 0.1};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8}), torch::randn({shape ? 6 : 4, 3})}; }
  Tensors run(const Tensors& in) override {
    optimizer.zero_grad();
    auto loss = torch::mse_loss(fc->forward(in[0]), in[1]);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(fc->parameters(), 0.5);
    optimizer.step();
    return {loss};
  }
  Tensors state() override { return fc->parameters(); }
  std::string never_served() override { return "the norm is needed on the host"; }
};
TENON_PROGRAM(ClipGradNorm);

}  // namespace tenon::test
