// ResNet-50, as a C++ user writes it with torch::nn.
#pragma once

#include <torch/torch.h>

namespace tenon::bench {

using torch::Tensor;

struct BottleneckImpl : torch::nn::Module {
  BottleneckImpl(int64_t in, int64_t inner, int64_t stride)
      : conv1(options(in, inner, 1, 1)),
        conv2(options(inner, inner, 3, stride)),
        conv3(options(inner, 4 * inner, 1, 1)),
        norm1(inner),
        norm2(inner),
        norm3(4 * inner) {
    register_module("conv1", conv1), register_module("conv2", conv2), register_module("conv3", conv3);
    register_module("norm1", norm1), register_module("norm2", norm2), register_module("norm3", norm3);
    if (in == 4 * inner && stride == 1) return;
    shortcut = register_module(
        "shortcut", torch::nn::Sequential(torch::nn::Conv2d(options(in, 4 * inner, 1, stride)), torch::nn::BatchNorm2d(4 * inner)));
  }
  static torch::nn::Conv2dOptions options(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    return torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false);
  }
  Tensor forward(const Tensor& x) {
    Tensor y = torch::relu(norm1(conv1(x)));
    y = torch::relu(norm2(conv2(y)));
    return torch::relu(norm3(conv3(y)) + (shortcut ? shortcut->forward(x) : x));
  }
  torch::nn::Conv2d conv1, conv2, conv3;
  torch::nn::BatchNorm2d norm1, norm2, norm3;
  torch::nn::Sequential shortcut{nullptr};
};
TORCH_MODULE(Bottleneck);

struct ResNet50Impl : torch::nn::Module {
  ResNet50Impl() : conv(torch::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)), norm(64), out(2048, 1000) {
    register_module("conv", conv), register_module("norm", norm), register_module("out", out), register_module("blocks", blocks);
    int64_t width = 64;
    for (auto [inner, count] : {std::pair{64, 3}, {128, 4}, {256, 6}, {512, 3}})
      for (int64_t i = 0; i < count; ++i) {
        blocks->push_back(Bottleneck(width, inner, i == 0 && inner > 64 ? 2 : 1));
        width = 4 * inner;
      }
  }
  Tensor forward(const Tensor& images) {
    Tensor x = torch::max_pool2d(torch::relu(norm(conv(images))), 3, 2, 1);
    for (auto& block : *blocks) x = block->as<Bottleneck>()->forward(x);
    return out(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }
  torch::nn::Conv2d conv;
  torch::nn::BatchNorm2d norm;
  torch::nn::Linear out;
  torch::nn::ModuleList blocks;
};
TORCH_MODULE(ResNet50);

}  // namespace tenon::bench
