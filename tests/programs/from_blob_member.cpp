// A persistent tensor over memory of the program, which changes between calls.
#include "support/program.h"

namespace tenon::test {

struct FromBlobMember : Program {
  torch::nn::Linear fc{8, 4};
  std::vector<float> memory{1, 2, 3, 4};
  torch::Tensor scale = torch::from_blob(memory.data(), {4}, torch::kFloat);

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  void before(int call) override { memory[0] = static_cast<float>(call); }
  Tensors run(const Tensors& in) override {
    auto y = fc->forward(in[0]) * scale.clone();
    scale[1].add_(1);
    return {y};
  }
  Tensors state() override { return {fc->weight, fc->bias, scale}; }
};
TENON_PROGRAM(FromBlobMember);

}  // namespace tenon::test
