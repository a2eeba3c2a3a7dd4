// A Llama block: RMSNorm, RoPE, grouped-query attention, SwiGLU.
#include "support/program.h"

namespace tenon::test {

struct LlamaBlock : Program {
  torch::Tensor norm1 = torch::ones({16}).requires_grad_(), norm2 = torch::ones({16}).requires_grad_();
  torch::nn::Linear q = linear(16, 16), k = linear(16, 8), v = linear(16, 8), o = linear(16, 16);
  torch::nn::Linear gate = linear(16, 32), up = linear(16, 32), down = linear(32, 16);

  static torch::nn::Linear linear(int in, int out) { return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(false)); }
  static torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight) {
    return x * torch::rsqrt(x.pow(2).mean(-1, true) + 1e-5) * weight;
  }
  static torch::Tensor rotate(const torch::Tensor& x) {
    auto angles = torch::outer(torch::arange(x.size(2), torch::kFloat), torch::pow(10000.0, -torch::arange(0, 4, 2, torch::kFloat) / 4));
    auto both = torch::cat({angles, angles}, 1);
    auto halves = x.chunk(2, -1);
    return x * both.cos() + torch::cat({-halves[1], halves[0]}, -1) * both.sin();
  }

  Tensors inputs(int shape) override { return {torch::randn({2, shape ? 6 : 4, 16})}; }
  Tensors run(const Tensors& in) override {
    auto x = in[0];
    auto length = x.size(1);
    auto heads = [&](const torch::Tensor& t) { return t.view({2, length, -1, 4}).transpose(1, 2); };
    auto h = rms_norm(x, norm1);
    auto keys = rotate(heads(k->forward(h))).repeat_interleave(2, 1), values = heads(v->forward(h)).repeat_interleave(2, 1);
    auto a = torch::scaled_dot_product_attention(rotate(heads(q->forward(h))), keys, values, {}, 0.0, true);
    x = x + o->forward(a.transpose(1, 2).reshape({2, length, 16}));
    h = rms_norm(x, norm2);
    return {x + down->forward(torch::silu(gate->forward(h)) * up->forward(h))};
  }
  Tensors state() override { return {norm1, norm2, q->weight, k->weight, v->weight, o->weight, gate->weight, up->weight, down->weight}; }
};
TENON_PROGRAM(LlamaBlock);

}  // namespace tenon::test
