// Results share memory with each other, without gradients.
#include "support/program.h"

namespace tenon::test {

struct OutputsAliasEachOther : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  void around(const std::function<void()>& call) override {
    torch::NoGradGuard off;
    call();
  }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]).relu();
    return {h, h.view(-1), h[0], h.t()};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(OutputsAliasEachOther);

}  // namespace tenon::test
