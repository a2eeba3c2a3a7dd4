// Three kinds of dropout in train mode.
#include "support/program.h"

namespace tenon::test {

struct DropoutTrain : Program {
  torch::nn::Linear fc{8, 8};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 4, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::dropout(fc->forward(in[0]), 0.5, true);
    h = torch::feature_dropout(h, 0.3, true);
    return {torch::alpha_dropout(h, 0.2, true)};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(DropoutTrain);

}  // namespace tenon::test
