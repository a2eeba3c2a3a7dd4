// Two backward passes inside the call that accumulate into gradients which are never cleared.
#include "support/program.h"

namespace tenon::test {

struct GradientAccumulation : Program {
  torch::nn::Linear fc{8, 3};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8}), torch::randn({shape ? 6 : 4, 8})}; }
  Tensors run(const Tensors& in) override {
    auto first = fc->forward(in[0]).pow(2).mean();
    first.backward();
    auto second = fc->forward(in[1]).abs().mean();
    second.backward();
    return {(first + second).detach()};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(GradientAccumulation);

}  // namespace tenon::test
