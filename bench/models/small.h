// Small networks, as a C++ user writes them with torch::nn.
#pragma once

#include <torch/torch.h>

namespace tenon::bench {

using torch::Tensor;

// Linear layers of these widths with ReLU between them.
struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(const std::vector<int64_t>& widths) {
    register_module("layers", layers);
    for (size_t i = 1; i < widths.size(); ++i) layers->push_back(torch::nn::Linear(widths[i - 1], widths[i]));
  }
  Tensor forward(Tensor x) {
    for (size_t i = 0; i < layers->size(); ++i) {
      x = layers[i]->as<torch::nn::Linear>()->forward(x);
      if (i + 1 < layers->size()) x = torch::relu(x);
    }
    return x;
  }
  torch::nn::ModuleList layers;
};
TORCH_MODULE(Mlp);

// One step of an LSTM, its gates written out; gives the new output and cell side by side.
struct LstmStepImpl : torch::nn::Module {
  explicit LstmStepImpl(int64_t width) : in(width, 4 * width), hidden(width, 4 * width) {
    register_module("in", in), register_module("hidden", hidden);
  }
  Tensor forward(const Tensor& x, const Tensor& h, const Tensor& c) {
    auto gates = (in(x) + hidden(h)).chunk(4, 1);
    Tensor cell = torch::sigmoid(gates[1]) * c + torch::sigmoid(gates[0]) * torch::tanh(gates[2]);
    return torch::cat({torch::sigmoid(gates[3]) * torch::tanh(cell), cell}, 1);
  }
  torch::nn::Linear in, hidden;
};
TORCH_MODULE(LstmStep);

// Three convolutions of 32 channels on images of 32 x 32.
struct SmallCnnImpl : torch::nn::Module {
  SmallCnnImpl() : conv1(options(3, 1)), conv2(options(32, 2)), conv3(options(32, 2)), out(32, 10) {
    register_module("conv1", conv1), register_module("conv2", conv2), register_module("conv3", conv3), register_module("out", out);
  }
  static torch::nn::Conv2dOptions options(int64_t in, int64_t stride) {
    return torch::nn::Conv2dOptions(in, 32, 3).stride(stride).padding(1);
  }
  Tensor forward(const Tensor& images) {
    Tensor x = torch::relu(conv3(torch::relu(conv2(torch::relu(conv1(images))))));
    return out(x.mean({2, 3}));
  }
  torch::nn::Conv2d conv1, conv2, conv3;
  torch::nn::Linear out;
};
TORCH_MODULE(SmallCnn);

}  // namespace tenon::bench
