// The input was computed with the same weight that the program uses: its gradient is a sum of two terms.
#include "support/program.h"

namespace tenon::test {

struct NonLeafInputSharedWeight : Program {
  torch::nn::Linear fc{8, 8};

  Tensors inputs(int shape) override { return {torch::tanh(fc->forward(torch::randn({shape ? 5 : 3, 8})))}; }
  Tensors run(const Tensors& in) override { return {torch::tanh(fc->forward(in[0]))}; }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(NonLeafInputSharedWeight);

}  // namespace tenon::test
