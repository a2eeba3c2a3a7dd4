// One segment runs in inference mode, the rest with gradients.
#include "support/program.h"

namespace tenon::test {

struct InferenceModeInside : Program {
  torch::nn::Linear frozen{8, 8}, fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    torch::Tensor features;
    {
      c10::InferenceMode on;
      features = torch::relu(frozen->forward(in[0]));
    }
    return {fc->forward(features.clone()), features};
  }
  Tensors state() override { return {frozen->weight, frozen->bias, fc->weight, fc->bias}; }
  std::string never_served() override { return "only some results are made in inference mode"; }
};
TENON_PROGRAM(InferenceModeInside);

}  // namespace tenon::test
