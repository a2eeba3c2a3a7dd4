// One input with zero strides, and one that is a slice with a step.
#include "support/program.h"

namespace tenon::test {

struct ExpandedInput : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override {
    int rows = shape ? 5 : 3;
    return {torch::randn({1, 8}).expand({rows, 8}), torch::randn({2 * rows, 8}).slice(0, 0, 2 * rows, 2)};
  }
  Tensors run(const Tensors& in) override { return {fc->forward(in[0] * in[1]), in[0] + 1, in[1].relu()}; }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(ExpandedInput);

}  // namespace tenon::test
