// Convolutions: one-dimensional, transposed, dilated, grouped.
#include "support/program.h"

namespace tenon::test {

struct Convolutions : Program {
  torch::nn::Conv1d line{torch::nn::Conv1dOptions(4, 6, 3).padding(2).dilation(2)};
  torch::nn::ConvTranspose1d back{torch::nn::ConvTranspose1dOptions(6, 4, 4).stride(2).padding(1)};
  torch::nn::Conv2d grouped{torch::nn::Conv2dOptions(4, 8, 3).groups(4).padding(1)};

  Tensors inputs(int shape) override { return {torch::randn({2, 4, shape ? 12 : 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::relu(line->forward(in[0]));
    auto wide = back->forward(h);
    return {wide, grouped->forward(wide.view({2, 4, 4, -1}))};
  }
  Tensors state() override { return {line->weight, line->bias, back->weight, back->bias, grouped->weight, grouped->bias}; }
};
TENON_PROGRAM(Convolutions);

}  // namespace tenon::test
