// BERT, and a ViT of its layers, as a C++ user writes it with torch::nn.
#pragma once

#include <torch/torch.h>

namespace tenon::bench {

using torch::Tensor;

struct BertSizes {
  int64_t layers = 12, width = 768, heads = 12, inner = 3072, vocabulary = 30522, positions = 512;
};

struct BertLayerImpl : torch::nn::Module {
  explicit BertLayerImpl(const BertSizes& s)
      : heads(s.heads),
        q(s.width, s.width),
        k(s.width, s.width),
        v(s.width, s.width),
        o(s.width, s.width),
        up(s.width, s.inner),
        down(s.inner, s.width),
        norm1(torch::nn::LayerNormOptions({s.width})),
        norm2(torch::nn::LayerNormOptions({s.width})) {
    register_module("q", q), register_module("k", k), register_module("v", v), register_module("o", o);
    register_module("up", up), register_module("down", down), register_module("norm1", norm1), register_module("norm2", norm2);
  }
  Tensor forward(Tensor x) {
    int64_t batch = x.size(0), length = x.size(1);
    auto split = [&](const Tensor& t) { return t.view({batch, length, heads, -1}).transpose(1, 2); };
    Tensor a = torch::scaled_dot_product_attention(split(q(x)), split(k(x)), split(v(x)));
    x = norm1(x + o(a.transpose(1, 2).reshape({batch, length, -1})));
    return norm2(x + down(torch::gelu(up(x))));
  }
  int64_t heads;
  torch::nn::Linear q, k, v, o, up, down;
  torch::nn::LayerNorm norm1, norm2;
};
TORCH_MODULE(BertLayer);

struct BertImpl : torch::nn::Module {
  explicit BertImpl(const BertSizes& s)
      : words(s.vocabulary, s.width), positions(s.positions, s.width), kinds(2, s.width), norm(torch::nn::LayerNormOptions({s.width})) {
    register_module("words", words), register_module("positions", positions), register_module("kinds", kinds);
    register_module("norm", norm), register_module("layers", layers);
    for (int64_t i = 0; i < s.layers; ++i) layers->push_back(BertLayer(s));
  }
  Tensor forward(const Tensor& ids) {
    Tensor x = words(ids) + positions(torch::arange(ids.size(1))) + kinds(torch::zeros_like(ids));
    x = norm(x);
    for (auto& layer : *layers) x = layer->as<BertLayer>()->forward(x);
    return x;
  }
  torch::nn::Embedding words, positions, kinds;
  torch::nn::LayerNorm norm;
  torch::nn::ModuleList layers;
};
TORCH_MODULE(Bert);

// Patches of 16 x 16 through layers of BERT's kind.
struct VitImpl : torch::nn::Module {
  explicit VitImpl(const BertSizes& s, int64_t image = 224)
      : patches(torch::nn::Conv2dOptions(3, s.width, 16).stride(16)), norm(torch::nn::LayerNormOptions({s.width})), out(s.width, 1000) {
    positions = register_parameter("positions", torch::randn({1, image / 16 * image / 16 + 1, s.width}) * 0.02);
    first = register_parameter("first", torch::zeros({1, 1, s.width}));
    register_module("patches", patches), register_module("norm", norm), register_module("out", out), register_module("layers", layers);
    for (int64_t i = 0; i < s.layers; ++i) layers->push_back(BertLayer(s));
  }
  Tensor forward(const Tensor& images) {
    Tensor x = patches(images).flatten(2).transpose(1, 2);
    x = torch::cat({first.expand({x.size(0), -1, -1}), x}, 1) + positions;
    for (auto& layer : *layers) x = layer->as<BertLayer>()->forward(x);
    return out(norm(x).select(1, 0));
  }
  Tensor positions, first;
  torch::nn::Conv2d patches;
  torch::nn::LayerNorm norm;
  torch::nn::Linear out;
  torch::nn::ModuleList layers;
};
TORCH_MODULE(Vit);

}  // namespace tenon::bench
