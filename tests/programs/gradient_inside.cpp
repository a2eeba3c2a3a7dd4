// Gradients computed inside the call with autograd::grad and returned; .grad stays unchanged.
#include "support/program.h"

namespace tenon::test {

struct GradientInside : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto loss = fc->forward(in[0]).pow(2).mean();
    auto gradients = torch::autograd::grad({loss}, fc->parameters());
    return {loss.detach(), gradients[0], gradients[1]};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(GradientInside);

}  // namespace tenon::test
