// Prefill: keys and values are copied to the beginning of a cache and read back.
#include "support/program.h"

namespace tenon::test {

struct KvCacheNarrow : Program {
  torch::nn::Linear qkv{8, 24};
  torch::Tensor keys = torch::zeros({2, 16, 8}), values = torch::zeros({2, 16, 8});

  Tensors inputs(int shape) override { return {torch::randn({2, shape ? 6 : 4, 8})}; }
  void around(const std::function<void()>& call) override {
    torch::NoGradGuard off;
    call();
  }
  Tensors run(const Tensors& in) override {
    auto parts = qkv->forward(in[0]).chunk(3, -1);
    auto k = keys.narrow(1, 0, in[0].size(1)), v = values.narrow(1, 0, in[0].size(1));
    k.copy_(parts[1]);
    v.copy_(parts[2]);
    return {torch::scaled_dot_product_attention(parts[0].unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), {}, 0.0, true).squeeze(1)};
  }
  Tensors state() override { return {qkv->weight, qkv->bias, keys, values}; }
};
TENON_PROGRAM(KvCacheNarrow);

}  // namespace tenon::test
