// Grad mode is off around the call and enabled again for a scope inside.
#include "support/program.h"

namespace tenon::test {

struct NoGradAround : Program {
  torch::nn::Linear first{8, 8}, second{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  void around(const std::function<void()>& call) override {
    torch::NoGradGuard off;
    call();
  }
  Tensors run(const Tensors& in) override {
    auto h = torch::relu(first->forward(in[0]));
    torch::AutoGradMode on(true);
    return {second->forward(h), h};
  }
  Tensors state() override { return {first->weight, first->bias, second->weight, second->bias}; }
};
TENON_PROGRAM(NoGradAround);

}  // namespace tenon::test
