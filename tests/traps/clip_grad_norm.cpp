// Gradients are clipped by a norm that is read on the host.
#include "traps/trap.h"

namespace tenon::test {

struct ClipGradNorm : Trap {
  torch::optim::SGD optimizer{parameters(), torch::optim::SGDOptions(0.05)};

  torch::Tensor body(torch::Tensor x) override {
    optimizer.zero_grad();
    auto loss = (fc2(fc(x)) * 10).pow(2).mean();
    loss.backward();
    seen.push_back(torch::nn::utils::clip_grad_norm_(parameters(), 0.5));
    optimizer.step();
    return loss.detach();
  }
};
TENON_PROGRAM(ClipGradNorm);

}  // namespace tenon::test
