// Hand-written attention over many keys, with several scales and masks. One query may attend to no key at all.
#include <limits>

#include "support/program.h"

namespace tenon::test {

struct AttentionWrittenOut : Program {
  torch::nn::Linear qkv{16, 48};

  Tensors inputs(int shape) override {
    int64_t length = shape ? 300 : 256;
    torch::Tensor mask = torch::zeros({length, length});
    if (shape) mask[3].fill_(-std::numeric_limits<float>::infinity());
    return {torch::randn({2, length, 16}), mask, torch::ones({length, length}, torch::kBool).triu(1)};
  }
  Tensors run(const Tensors& in) override {
    constexpr double kNothing = -std::numeric_limits<double>::infinity();
    auto heads = [&](const torch::Tensor& t) { return t.view({2, -1, 2, 8}).transpose(1, 2); };
    Tensors parts = qkv->forward(in[0]).chunk(3, -1);
    torch::Tensor q = heads(parts[0]), k = heads(parts[1]), v = heads(parts[2]);
    auto attend = [&](const torch::Tensor& scores) { return torch::matmul(torch::softmax(scores, -1), v); };
    torch::Tensor plain = attend(torch::matmul(q, k.transpose(-1, -2)) / 2.8);
    torch::Tensor added = attend(torch::matmul(q, k.transpose(-1, -2)) * 0.35 + in[1]);
    torch::Tensor causal = attend((torch::matmul(q, k.transpose(-1, -2)) / 2.8).masked_fill(in[2], kNothing));
    torch::Tensor of_one_head = torch::bmm(torch::softmax(torch::bmm(q.select(1, 0), k.select(1, 0).transpose(1, 2)), -1), v.select(1, 1));
    return {plain, added, causal, of_one_head};
  }
  Tensors state() override { return {qkv->weight, qkv->bias}; }
};
TENON_PROGRAM(AttentionWrittenOut);

}  // namespace tenon::test
