// Results share memory and have autograd history, which a graph cannot rebuild.
#include "support/program.h"

namespace tenon::test {

struct OutputsAliasWithGrad : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]).relu();
    return {h, h.view(-1), h[0]};
  }
  Tensors state() override { return fc->parameters(); }
  std::string never_served() override { return "returns tensors that require grad and share memory"; }
};
TENON_PROGRAM(OutputsAliasWithGrad);

}  // namespace tenon::test
