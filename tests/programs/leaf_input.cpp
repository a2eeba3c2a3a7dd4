// The input is a leaf that requires grad.
#include "support/program.h"

namespace tenon::test {

struct LeafInput : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8}).requires_grad_(), torch::randn({4})}; }
  Tensors run(const Tensors& in) override { return {torch::sigmoid(fc->forward(in[0].sin())) * in[1]}; }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(LeafInput);

}  // namespace tenon::test
