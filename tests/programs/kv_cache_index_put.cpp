// Decoding: one token is written to the cache at a position that is a tensor.
#include <cmath>

#include "support/program.h"

namespace tenon::test {

struct KvCacheIndexPut : Program {
  torch::nn::Linear qkv{8, 24};
  torch::Tensor keys = torch::zeros({16, 8}), values = torch::zeros({16, 8});
  int position = 0;

  Tensors inputs(int shape) override {
    int tokens = shape ? 2 : 1;
    position = (position + tokens) % 12;
    return {torch::randn({tokens, 8}), torch::arange(position, position + tokens)};
  }
  void around(const std::function<void()>& call) override {
    torch::NoGradGuard off;
    call();
  }
  Tensors run(const Tensors& in) override {
    auto parts = qkv->forward(in[0]).chunk(3, -1);
    keys.index_put_({in[1]}, parts[1]);
    values.index_copy_(0, in[1], parts[2]);
    auto seen = torch::arange(16).unsqueeze(0) <= in[1].unsqueeze(1);
    auto scores = torch::mm(parts[0], keys.t()).masked_fill(~seen, -INFINITY);
    return {torch::mm(torch::softmax(scores, -1), values)};
  }
  Tensors state() override { return {qkv->weight, qkv->bias, keys, values}; }
};
TENON_PROGRAM(KvCacheIndexPut);

}  // namespace tenon::test
