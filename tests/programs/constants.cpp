// Constants that factory ops create inside the program.
#include "support/program.h"

namespace tenon::test {

struct Constants : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    auto rows = torch::arange(h.size(0), h.options().requires_grad(false)).unsqueeze(1);
    auto y = h * torch::full({4}, 0.25) + torch::linspace(0, 1, 4) + rows;
    return {y + torch::eye(4).sum(0), torch::zeros({2}), torch::ones_like(h), torch::full({2, 2}, 7, torch::kLong)};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(Constants);

}  // namespace tenon::test
