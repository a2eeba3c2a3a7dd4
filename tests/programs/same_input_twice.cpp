// The same tensor is passed twice and written through one of the arguments.
#include "support/program.h"

namespace tenon::test {

struct SameInputTwice : Program {
  torch::nn::Linear fc{8, 8};

  Tensors inputs(int shape) override {
    auto x = torch::randn({shape ? 5 : 3, 8});
    return {x, x};
  }
  Tensors run(const Tensors& in) override {
    in[0].mul_(0.5);
    auto h = fc->forward(in[1]);
    return {h * in[0]};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(SameInputTwice);

}  // namespace tenon::test
