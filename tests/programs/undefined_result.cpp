// One result is an undefined tensor, and one tensor is returned twice.
#include "support/program.h"

namespace tenon::test {

struct UndefinedResult : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  void around(const std::function<void()>& call) override {
    torch::NoGradGuard off;
    call();
  }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    return {h, torch::Tensor(), h, fc->weight};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(UndefinedResult);

}  // namespace tenon::test
