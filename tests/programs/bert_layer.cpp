// A BERT layer: hand-written attention, padding mask as an additive bias, post-norm.
#include <cmath>

#include "support/program.h"

namespace tenon::test {

struct BertLayer : Program {
  torch::nn::Linear q{16, 16}, k{16, 16}, v{16, 16}, o{16, 16}, up{16, 32}, down{32, 16};
  torch::nn::LayerNorm norm1{torch::nn::LayerNormOptions({16})}, norm2{torch::nn::LayerNormOptions({16})};

  Tensors inputs(int shape) override {
    int length = shape ? 6 : 4;
    auto lengths = torch::randint(1, length + 1, {3, 1});
    return {torch::randn({3, length, 16}), torch::arange(length).unsqueeze(0) < lengths};
  }
  Tensors run(const Tensors& in) override {
    auto x = in[0];
    auto heads = [&](const torch::Tensor& t) { return t.view({3, -1, 2, 8}).permute({0, 2, 1, 3}); };
    auto bias = (1.0 - in[1].to(torch::kFloat)).unsqueeze(1).unsqueeze(1) * -10000.0;
    auto scores = torch::matmul(heads(q->forward(x)), heads(k->forward(x)).transpose(-1, -2)) / std::sqrt(8.0);
    auto a = torch::matmul(torch::softmax(scores + bias, -1), heads(v->forward(x)));
    auto h = norm1->forward(x + o->forward(a.permute({0, 2, 1, 3}).contiguous().view({3, -1, 16})));
    return {norm2->forward(h + down->forward(torch::gelu(up->forward(h)))), scores};
  }
  Tensors state() override {
    Tensors all;
    for (auto& fc : {q, k, v, o, up, down}) all.insert(all.end(), {fc->weight, fc->bias});
    for (auto& norm : {norm1, norm2}) all.insert(all.end(), {norm->weight, norm->bias});
    return all;
  }
};
TENON_PROGRAM(BertLayer);

}  // namespace tenon::test
