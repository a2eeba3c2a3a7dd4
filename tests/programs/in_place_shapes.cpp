// In-place ops that change only the shape of an intermediate.
#include "support/program.h"

namespace tenon::test {

struct InPlaceShapes : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]).tanh();
    auto wide = (h * 2).unsqueeze_(0).transpose_(1, 2);
    auto flat = (h + 1).t_().unsqueeze_(1).squeeze_(1);
    return {wide * 3, flat.exp()};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(InPlaceShapes);

}  // namespace tenon::test
