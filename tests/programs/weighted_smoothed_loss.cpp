// Label smoothing and class weights together: torch selects the contributing rows with a mask.
#include "support/program.h"

namespace tenon::test {

struct WeightedSmoothedLoss : Program {
  torch::nn::Linear fc{8, 4};
  torch::Tensor weights = torch::rand({4});

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8}), torch::randint(0, 4, {shape ? 6 : 4})}; }
  Tensors run(const Tensors& in) override {
    return {
        torch::cross_entropy_loss(fc->forward(in[0]), in[1], weights, at::Reduction::Mean, /*ignore_index=*/2, /*label_smoothing=*/0.1)};
  }
  Tensors state() override { return fc->parameters(); }
  std::string never_served() override { return "a shape inside the loss depends on data"; }
};
TENON_PROGRAM(WeightedSmoothedLoss);

}  // namespace tenon::test
