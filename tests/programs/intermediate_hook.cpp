// A hook on an intermediate changes the gradient that flows further.
#include "support/program.h"

namespace tenon::test {

struct IntermediateHook : Program {
  torch::nn::Linear first{8, 8}, second{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::tanh(first->forward(in[0]));
    h.register_hook([](torch::Tensor gradient) { return gradient.clamp(-0.5, 0.5) * 3; });
    return {second->forward(h)};
  }
  Tensors state() override { return {first->weight, first->bias, second->weight, second->bias}; }
};
TENON_PROGRAM(IntermediateHook);

}  // namespace tenon::test
