// A GPT-2 block: causal attention with a fused QKV projection, tanh-approximated GELU.
#include "support/program.h"

namespace tenon::test {

struct Gpt2BlockNet : torch::nn::Module {
  torch::nn::LayerNorm norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
  torch::nn::LayerNorm norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
  torch::nn::Linear qkv = register_module("qkv", torch::nn::Linear(16, 48));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(16, 16));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(16, 64));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(64, 16));

  torch::Tensor forward(torch::Tensor x) {
    auto batch = x.size(0), length = x.size(1);
    auto split = qkv->forward(norm1->forward(x)).split(16, 2);
    for (auto& t : split) t = t.view({batch, length, 2, 8}).transpose(1, 2);
    auto a = torch::scaled_dot_product_attention(split[0], split[1], split[2], {}, 0.0, /*is_causal=*/true);
    x = x + out->forward(a.transpose(1, 2).contiguous().view({batch, length, 16}));
    return x + down->forward(torch::gelu(up->forward(norm2->forward(x)), "tanh"));
  }
};

struct Gpt2Block : Program {
  std::shared_ptr<Gpt2BlockNet> net = std::make_shared<Gpt2BlockNet>();

  Tensors inputs(int shape) override { return {torch::randn({2, shape ? 7 : 5, 16})}; }
  Tensors run(const Tensors& in) override { return {net->forward(in[0])}; }
  Tensors state() override { return net->parameters(); }
};
TENON_PROGRAM(Gpt2Block);

}  // namespace tenon::test
