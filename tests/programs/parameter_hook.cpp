// A hook on a parameter scales its gradient; the backward runs after the call.
#include "support/program.h"

namespace tenon::test {

struct ParameterHook : Program {
  torch::nn::Linear fc{8, 4};

  ParameterHook() {
    fc->weight.register_hook([](torch::Tensor gradient) { return gradient * 2; });
  }
  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override { return {torch::relu(fc->forward(in[0]))}; }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(ParameterHook);

}  // namespace tenon::test
