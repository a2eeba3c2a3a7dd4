// A tensor that the host fills inside the program.
#include "support/program.h"

namespace tenon::test {

struct TensorFromVector : Program {
  torch::nn::Linear fc{8, 3};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto scale = torch::tensor(std::vector<float>{0.5f, 2.0f, -1.0f});
    return {fc->forward(in[0]) * scale};
  }
  Tensors state() override { return fc->parameters(); }
  std::string never_served() override { return "a tensor is filled by the host"; }
};
TENON_PROGRAM(TensorFromVector);

}  // namespace tenon::test
