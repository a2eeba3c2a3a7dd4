// A convolution in channels-last memory format: the strides of the results matter.
#include "support/program.h"

namespace tenon::test {

struct ChannelsLast : Program {
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(4, 8, 3).padding(1)};

  Tensors inputs(int shape) override { return {torch::randn({2, 4, shape ? 10 : 8, 8}).contiguous(torch::MemoryFormat::ChannelsLast)}; }
  Tensors run(const Tensors& in) override {
    auto h = torch::relu(conv->forward(in[0]));
    return {h, torch::max_pool2d(h, 2), h.permute({0, 2, 3, 1}) + 1, torch::zeros_like(h)};
  }
  Tensors state() override { return conv->parameters(); }
};
TENON_PROGRAM(ChannelsLast);

}  // namespace tenon::test
