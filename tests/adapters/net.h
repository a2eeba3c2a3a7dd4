// A tree of torch::nn modules with all kinds of layers that a bank knows. tests/adapters/test_trees.py has the same in Python.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>

namespace tenon {

struct NetImpl : torch::nn::Module {
  NetImpl()
      : embed(register_module("embed", torch::nn::Embedding(64, 32))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})))),
        up(register_module("up", torch::nn::Linear(32, 77))),
        down(register_module("down", torch::nn::Linear(torch::nn::LinearOptions(77, 32).bias(false)))),
        conv(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)))),
        head(register_module("head", torch::nn::Linear(32, 5))) {}
  torch::Tensor forward(const torch::Tensor& ids) {
    auto x = embed(ids);
    x = x + down(torch::relu(up(norm(x))));
    x = x + conv(x.unsqueeze(1)).mean(1);
    return head(x.mean(1));
  }
  void set_weights(const std::map<std::string, at::Tensor>& weights) {
    torch::NoGradGuard no_grad;
    for (auto& parameter : named_parameters()) parameter.value().copy_(weights.at(parameter.key()));
  }
  torch::nn::Embedding embed;
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
  torch::nn::Conv2d conv;
  torch::nn::Linear head;
};
TORCH_MODULE(Net);

}  // namespace tenon
