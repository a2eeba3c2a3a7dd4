// Llama, with hand-written LoRA if asked for, as a C++ user writes it with torch::nn.
#pragma once

#include <torch/torch.h>

namespace tenon::bench {

using torch::Tensor;

struct LlamaSizes {
  int64_t layers = 12, width = 768, heads = 12, kv_heads = 4, inner = 2048, vocabulary = 32000;
  int64_t lora_rank = 0;     // on the query and value projections; 0: none, and everything is trained
  bool lora_on_all = false;  // on all linear layers of the blocks
};

// A linear layer without bias; with a rank, it is frozen and has a trained low-rank correction of scale 2.
struct LoraLinearImpl : torch::nn::LinearImpl {
  LoraLinearImpl(int64_t in, int64_t out, int64_t rank = 0) : LinearImpl(torch::nn::LinearOptions(in, out).bias(false)) {
    torch::nn::init::normal_(weight, 0, 0.02);
    if (rank == 0) return;
    a = register_parameter("a", torch::randn({rank, in}) * 0.02);
    b = register_parameter("b", torch::zeros({out, rank}));
  }
  Tensor forward(const Tensor& x) {
    Tensor y = LinearImpl::forward(x);
    return a.defined() ? y + torch::linear(torch::linear(x, a), b) * 2.0 : y;
  }
  Tensor a, b;
};
TORCH_MODULE(LoraLinear);

struct RmsNormImpl : torch::nn::Module {
  explicit RmsNormImpl(int64_t width) { weight = register_parameter("weight", torch::ones({width})); }
  Tensor forward(const Tensor& x) {
    Tensor wide = x.to(torch::kFloat);
    return weight * (wide * torch::rsqrt(wide.pow(2).mean(-1, true) + 1e-6)).to(x.scalar_type());
  }
  Tensor weight;
};
TORCH_MODULE(RmsNorm);

struct LlamaBlockImpl : torch::nn::Module {
  explicit LlamaBlockImpl(const LlamaSizes& s)
      : head(s.width / s.heads),
        groups(s.heads / s.kv_heads),
        q(s.width, s.width, s.lora_rank),
        k(s.width, head * s.kv_heads, s.lora_on_all ? s.lora_rank : 0),
        v(s.width, head * s.kv_heads, s.lora_rank),
        o(s.width, s.width, s.lora_on_all ? s.lora_rank : 0),
        gate(s.width, s.inner, s.lora_on_all ? s.lora_rank : 0),
        up(s.width, s.inner, s.lora_on_all ? s.lora_rank : 0),
        down(s.inner, s.width, s.lora_on_all ? s.lora_rank : 0),
        norm1(s.width),
        norm2(s.width) {
    register_module("q", q), register_module("k", k), register_module("v", v), register_module("o", o);
    register_module("gate", gate), register_module("up", up), register_module("down", down);
    register_module("norm1", norm1), register_module("norm2", norm2);
  }

  static Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
    auto halves = x.chunk(2, -1);
    return x * cos + torch::cat({-halves[1], halves[0]}, -1) * sin;
  }

  Tensor forward(Tensor x, const Tensor& cos, const Tensor& sin) {
    int64_t batch = x.size(0), length = x.size(1);
    auto heads = [&](const Tensor& t) { return t.view({batch, length, -1, head}).transpose(1, 2); };
    Tensor h = norm1(x);
    Tensor keys = rotate(heads(k(h)), cos, sin).repeat_interleave(groups, 1), values = heads(v(h)).repeat_interleave(groups, 1);
    Tensor a = torch::scaled_dot_product_attention(rotate(heads(q(h)), cos, sin), keys, values, {}, 0.0, /*is_causal=*/true);
    x = x + o(a.transpose(1, 2).reshape({batch, length, -1}));
    h = norm2(x);
    return x + down(torch::silu(gate(h)) * up(h));
  }

  int64_t head, groups;
  LoraLinear q, k, v, o, gate, up, down;
  RmsNorm norm1, norm2;
};
TORCH_MODULE(LlamaBlock);

struct LlamaImpl : torch::nn::Module {
  explicit LlamaImpl(const LlamaSizes& s) : sizes(s), embedding(s.vocabulary, s.width), norm(s.width), out(s.width, s.vocabulary) {
    register_module("embedding", embedding), register_module("blocks", blocks), register_module("norm", norm), register_module("out", out);
    for (int64_t i = 0; i < s.layers; ++i) blocks->push_back(LlamaBlock(s));
    if (s.lora_rank == 0) return;
    for (auto& item : named_parameters()) {
      bool trained = item.key().ends_with(".a") || item.key().ends_with(".b");
      item.value().set_requires_grad(trained);
    }
  }

  Tensor forward(const Tensor& ids) {
    int64_t head = sizes.width / sizes.heads;
    Tensor x = embedding(ids);
    Tensor steps = torch::pow(10000.0, -torch::arange(0, head, 2, torch::kFloat) / static_cast<double>(head));
    Tensor angles = torch::outer(torch::arange(ids.size(1), torch::kFloat), steps);
    angles = torch::cat({angles, angles}, 1);
    Tensor cos = angles.cos().to(x.scalar_type()), sin = angles.sin().to(x.scalar_type());
    for (auto& block : *blocks) x = block->as<LlamaBlock>()->forward(x, cos, sin);
    return out(norm(x));
  }
  // Each token from those before it.
  Tensor loss(const Tensor& ids) {
    Tensor logits = forward(ids).slice(1, 0, -1).reshape({-1, sizes.vocabulary});
    return torch::nn::functional::cross_entropy(logits, ids.slice(1, 1).reshape(-1));
  }

  LlamaSizes sizes;
  torch::nn::Embedding embedding;
  torch::nn::ModuleList blocks;
  RmsNorm norm;
  LoraLinear out;
};
TORCH_MODULE(Llama);

}  // namespace tenon::bench
