// Indexing with a boolean mask: the length depends on the values.
#include "support/program.h"

namespace tenon::test {

struct BooleanMask : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    return {h.index({in[0].slice(1, 0, 4) > 0}).pow(2), h.masked_select(h > 0).sum()};
  }
  Tensors state() override { return fc->parameters(); }
  std::string never_served() override { return "the shape depends on data"; }
};
TENON_PROGRAM(BooleanMask);

}  // namespace tenon::test
