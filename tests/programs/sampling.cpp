// Sampling from the model's own probabilities.
#include "support/program.h"

namespace tenon::test {

struct Sampling : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    auto drawn = torch::multinomial(torch::softmax(h.detach(), -1), 2, /*replacement=*/true);
    auto kept = torch::bernoulli(torch::sigmoid(h.detach()));
    return {torch::log_softmax(h, -1).gather(1, drawn), drawn, h * kept, torch::randperm(6)};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(Sampling);

}  // namespace tenon::test
