// A tensor over memory of the program, created inside the call.
#include "support/program.h"

namespace tenon::test {

struct FromBlobInside : Program {
  torch::nn::Linear fc{8, 4};
  std::vector<float> scale{1, 2, 3, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  void before(int call) override { scale[0] = static_cast<float>(call); }
  Tensors run(const Tensors& in) override {
    auto view = torch::from_blob(scale.data(), {4}, torch::kFloat);
    return {fc->forward(in[0]) * view};
  }
  Tensors state() override { return fc->parameters(); }
  std::string never_served() override { return "from_blob makes a new tensor over host memory in each call"; }
};
TENON_PROGRAM(FromBlobInside);

}  // namespace tenon::test
