// Weights are changed through .data(), which autograd does not see.
#include "support/program.h"

namespace tenon::test {

struct WeightsByData : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    fc->weight.data().mul_(0.9);
    auto y = fc->forward(in[0]);
    fc->bias.data().add_(0.1);
    return {y};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(WeightsByData);

}  // namespace tenon::test
