// A frozen layer below a trained one: it has no gradient, and the graph must not create one.
#include "support/program.h"

namespace tenon::test {

struct FrozenLayer : Program {
  torch::nn::Linear frozen{8, 8}, fc{8, 4};

  FrozenLayer() {
    for (auto& p : frozen->parameters()) p.set_requires_grad(false);
  }
  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::relu(frozen->forward(in[0]));
    return {fc->forward(h), h, fc->forward(h).detach()};
  }
  Tensors state() override { return {frozen->weight, frozen->bias, fc->weight, fc->bias}; }
};
TENON_PROGRAM(FrozenLayer);

}  // namespace tenon::test
