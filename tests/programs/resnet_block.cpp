// A residual block with a projection on the shortcut and in-place activations.
#include "support/program.h"

namespace tenon::test {

struct ResNetBlockNet : torch::nn::Module {
  torch::nn::Conv2d first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 8, 3).stride(2).padding(1).bias(false)));
  torch::nn::BatchNorm2d first_norm = register_module("first_norm", torch::nn::BatchNorm2d(8));
  torch::nn::Conv2d second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).padding(1).bias(false)));
  torch::nn::BatchNorm2d second_norm = register_module("second_norm", torch::nn::BatchNorm2d(8));
  torch::nn::Sequential shortcut = register_module(
      "shortcut",
      torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 8, 1).stride(2).bias(false)), torch::nn::BatchNorm2d(8)));

  torch::Tensor forward(torch::Tensor x) {
    auto h = first_norm->forward(first->forward(x)).relu_();
    h = second_norm->forward(second->forward(h));
    h += shortcut->forward(x);
    return h.relu_();
  }
};

struct ResNetBlock : Program {
  std::shared_ptr<ResNetBlockNet> net = std::make_shared<ResNetBlockNet>();

  Tensors inputs(int shape) override { return {torch::randn({2, 4, shape ? 10 : 8, 8})}; }
  Tensors run(const Tensors& in) override { return {net->forward(in[0])}; }
  Tensors state() override {
    Tensors all = net->parameters();
    for (auto& buffer : net->buffers()) all.push_back(buffer);
    return all;
  }
};
TENON_PROGRAM(ResNetBlock);

}  // namespace tenon::test
