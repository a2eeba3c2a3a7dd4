// Tensors without elements in a matrix product, a cat and a sum.
#include "support/program.h"

namespace tenon::test {

struct EmptyTensors : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({0, 8}), torch::randn({shape ? 5 : 3, 0}), torch::randn({shape ? 2 : 0, 4})}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::relu(fc->forward(in[0]));
    auto zeros = torch::mm(in[1], torch::ones({0, 4}));
    return {h, h.sum(), torch::cat({h, zeros, in[2] * 2}), zeros, torch::empty({0})};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(EmptyTensors);

}  // namespace tenon::test
