// A program in double, with conversions of its inputs and results.
#include "support/program.h"

namespace tenon::test {

struct Doubles : Program {
  torch::nn::Linear fc{8, 4};

  Doubles() { fc->to(torch::kDouble); }
  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::softplus(fc->forward(in[0].to(torch::kDouble)));
    return {h.logsumexp(-1), h.to(torch::kFloat).std()};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(Doubles);

}  // namespace tenon::test
