// Item() breaks the graph, and capture continues after it.
#include "support/program.h"

namespace tenon::test {

struct BranchOnItem : Program {
  torch::nn::Linear fc{8, 8};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    if (h.sum().item<float>() > 0) h = h * 2;
    else h = torch::relu(h) - 1;
    return {h};
  }
  Tensors state() override { return fc->parameters(); }
  std::string never_served() override { return "the branch needs the value on the host"; }
};
TENON_PROGRAM(BranchOnItem);

}  // namespace tenon::test
