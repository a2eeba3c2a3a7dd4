// Trees of torch::nn modules whose weights come from a file.
#pragma once

#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>

namespace tenon {

struct TreeImpl : torch::nn::Module {
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
  void set_weights(const std::map<std::string, at::Tensor>& weights) {
    torch::NoGradGuard no_grad;
    for (auto& parameter : named_parameters()) parameter.value().copy_(weights.at(parameter.key()));
  }
};

// All kinds of layers that a bank knows. tests/adapters/test_trees.py has the same in Python.
struct NetImpl : TreeImpl {
  NetImpl()
      : embed(register_module("embed", torch::nn::Embedding(64, 32))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})))),
        up(register_module("up", torch::nn::Linear(32, 77))),
        down(register_module("down", torch::nn::Linear(torch::nn::LinearOptions(77, 32).bias(false)))),
        conv(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)))),
        head(register_module("head", torch::nn::Linear(32, 5))) {}
  torch::Tensor forward(const torch::Tensor& ids) override {
    auto x = embed(ids);
    x = x + down(torch::relu(up(norm(x))));
    x = x + conv(x.unsqueeze(1)).mean(1);
    return head(x.mean(1));
  }
  torch::nn::Embedding embed;
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
  torch::nn::Conv2d conv;
  torch::nn::Linear head;
};
TORCH_MODULE(Net);

// Convolutions with and without a bias, a stride and a padding, as the manifest of the golden files describes them
// (tests/adapters/test_creation_goldens.py).
struct ConvNetImpl : TreeImpl {
  ConvNetImpl()
      : c1(register_module("c1", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 8, 3).padding(1)))),
        c2(register_module("c2", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 1).bias(false)))),
        c3(register_module("c3", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, 3).stride(2).padding(1)))),
        fc(register_module("fc", torch::nn::Linear(16, 5))) {}
  torch::Tensor forward(const torch::Tensor& image) override {
    auto x = torch::relu(c3(torch::relu(c2(torch::relu(c1(image))))));
    return fc(x.mean({2, 3}));
  }
  torch::nn::Conv2d c1, c2, c3;
  torch::nn::Linear fc;
};

// The tree that these weights belong to.
inline std::shared_ptr<TreeImpl> make_tree(const std::map<std::string, at::Tensor>& weights) {
  std::shared_ptr<TreeImpl> out;
  if (weights.count("c1.weight")) out = std::make_shared<ConvNetImpl>();
  else out = std::make_shared<NetImpl>();
  out->set_weights(weights);
  return out;
}

}  // namespace tenon
