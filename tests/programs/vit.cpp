// A vision transformer: patch convolution, class token, position embedding, one encoder layer.
#include "support/program.h"

namespace tenon::test {

struct Vit : Program {
  torch::nn::Conv2d patches{torch::nn::Conv2dOptions(3, 16, 4).stride(4)};
  torch::nn::TransformerEncoderLayer block{torch::nn::TransformerEncoderLayerOptions(16, 2).dim_feedforward(32).dropout(0.0)};
  torch::nn::Linear head{16, 5};
  torch::Tensor token = torch::randn({1, 1, 16}).requires_grad_(), positions = torch::randn({1, 5, 16}).requires_grad_();

  Tensors inputs(int shape) override { return {torch::randn({shape ? 3 : 2, 3, 8, 8})}; }
  Tensors run(const Tensors& in) override {
    auto x = patches->forward(in[0]).flatten(2).transpose(1, 2);
    x = torch::cat({token.expand({x.size(0), -1, -1}), x}, 1) + positions;
    x = block->forward(x.transpose(0, 1));
    return {head->forward(x[0])};
  }
  Tensors state() override {
    Tensors all{token, positions, patches->weight, patches->bias, head->weight, head->bias};
    for (auto& p : block->parameters()) all.push_back(p);
    return all;
  }
};
TENON_PROGRAM(Vit);

}  // namespace tenon::test
