// Two backward passes over the same history inside the call.
#include "support/program.h"

namespace tenon::test {

struct RetainGraph : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::tanh(fc->forward(in[0]));
    h.sum().backward({}, /*retain_graph=*/true);
    h.pow(2).sum().backward();
    return {h.detach()};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(RetainGraph);

}  // namespace tenon::test
