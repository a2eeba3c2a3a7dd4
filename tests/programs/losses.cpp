// Losses with options: label smoothing, class weights, an ignored class, logits.
#include "support/program.h"

namespace tenon::test {

struct Losses : Program {
  torch::nn::Linear fc{8, 4};
  torch::Tensor weights = torch::rand({4});

  Tensors inputs(int shape) override {
    int rows = shape ? 6 : 4;
    return {torch::randn({rows, 8}), torch::randint(0, 4, {rows}), torch::rand({rows, 4})};
  }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    return {torch::cross_entropy_loss(h, in[1], {}, at::Reduction::Mean, /*ignore_index=*/2, /*label_smoothing=*/0.1),
            torch::cross_entropy_loss(h, in[1], weights),
            torch::binary_cross_entropy_with_logits(h, in[2]),
            torch::kl_div(torch::log_softmax(h, 1), in[2].softmax(1)),
            torch::huber_loss(h, in[2]),
            torch::cosine_similarity(h, in[2])};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(Losses);

}  // namespace tenon::test
