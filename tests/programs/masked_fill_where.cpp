// Masked ops that keep the shape.
#include "support/program.h"

namespace tenon::test {

struct MaskedFillWhere : Program {
  torch::nn::Linear fc{8, 8};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    auto mask = in[0] > 0;
    auto kept = torch::where(mask, h, h * 0.1);
    auto filled = h.masked_fill(mask, -1e9).softmax(-1);
    auto floor = torch::where(h > 0.5, h, torch::zeros({}));
    return {kept, filled, floor, h.clone().masked_fill_(mask, 3.0)};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(MaskedFillWhere);

}  // namespace tenon::test
