// GPT-2, as a C++ user writes it with torch::nn.
#pragma once

#include <torch/torch.h>

namespace tenon::bench {

using torch::Tensor;

struct Gpt2Sizes {
  int64_t layers = 12, width = 768, heads = 12, vocabulary = 50257, positions = 1024;
};

struct Gpt2BlockImpl : torch::nn::Module {
  explicit Gpt2BlockImpl(const Gpt2Sizes& s)
      : heads(s.heads),
        qkv(s.width, 3 * s.width),
        out(s.width, s.width),
        up(s.width, 4 * s.width),
        down(4 * s.width, s.width),
        norm1(torch::nn::LayerNormOptions({s.width})),
        norm2(torch::nn::LayerNormOptions({s.width})) {
    register_module("qkv", qkv), register_module("out", out), register_module("up", up), register_module("down", down);
    register_module("norm1", norm1), register_module("norm2", norm2);
  }
  Tensor forward(Tensor x) {
    int64_t batch = x.size(0), length = x.size(1);
    auto parts = qkv(norm1(x)).chunk(3, -1);
    for (Tensor& part : parts) part = part.view({batch, length, heads, -1}).transpose(1, 2);
    Tensor a = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    x = x + out(a.transpose(1, 2).reshape({batch, length, -1}));
    return x + down(torch::gelu(up(norm2(x)), "tanh"));
  }
  int64_t heads;
  torch::nn::Linear qkv, out, up, down;
  torch::nn::LayerNorm norm1, norm2;
};
TORCH_MODULE(Gpt2Block);

struct Gpt2Impl : torch::nn::Module {
  explicit Gpt2Impl(const Gpt2Sizes& s)
      : vocabulary(s.vocabulary),
        words(s.vocabulary, s.width),
        positions(s.positions, s.width),
        norm(torch::nn::LayerNormOptions({s.width})) {
    register_module("words", words), register_module("positions", positions), register_module("norm", norm),
        register_module("blocks", blocks);
    for (int64_t i = 0; i < s.layers; ++i) blocks->push_back(Gpt2Block(s));
  }
  Tensor forward(const Tensor& ids) {
    Tensor x = words(ids) + positions(torch::arange(ids.size(1)));
    for (auto& block : *blocks) x = block->as<Gpt2Block>()->forward(x);
    return torch::linear(norm(x), words->weight);
  }
  Tensor loss(const Tensor& ids) {
    Tensor logits = forward(ids).slice(1, 0, -1).reshape({-1, vocabulary});
    return torch::nn::functional::cross_entropy(logits, ids.slice(1, 1).reshape(-1));
  }
  int64_t vocabulary;
  torch::nn::Embedding words, positions;
  torch::nn::LayerNorm norm;
  torch::nn::ModuleList blocks;
};
TORCH_MODULE(Gpt2);

}  // namespace tenon::bench
