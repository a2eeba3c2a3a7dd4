// rrelu in train mode: one op fills a tensor of noise that its backward reads.
#include "support/program.h"

namespace tenon::test {

struct RandomRelu : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override { return {torch::rrelu(fc->forward(in[0]), 0.1, 0.3, /*training=*/true)}; }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(RandomRelu);

}  // namespace tenon::test
