// An embedding has sparse gradients.
#include "traps/trap.h"

namespace tenon::test {

struct SparseGradient : Trap {
  torch::nn::Embedding embedding{torch::nn::EmbeddingOptions(6, 3).sparse(true)};

  torch::Tensor body(torch::Tensor x) override {
    embedding->weight.mutable_grad().reset();
    auto index = torch::arange(x.size(0)) % 5;
    auto loss = embedding(index).pow(2).sum() * x.mean();
    loss.backward();
    kept = embedding->weight.grad().to_dense();
    return loss.detach();
  }
  Tensors state() override { return {embedding->weight.detach(), kept}; }
};
TENON_PROGRAM(SparseGradient);

}  // namespace tenon::test
