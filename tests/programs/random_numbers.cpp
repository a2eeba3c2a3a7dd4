// Random numbers drawn inside the call by several ops: noise on the data and on a parameter.
#include "support/program.h"

namespace tenon::test {

struct RandomNumbers : Program {
  torch::nn::Linear fc{8, 4};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto noisy = in[0] + 0.1 * torch::randn_like(in[0]);
    auto h = fc->forward(noisy) * torch::rand({4});
    auto drawn = torch::empty({3}).uniform_(-1, 1);
    return {h, torch::randn({2, 2}), drawn.normal_(0, 2), torch::randint(0, 9, {4}), torch::normal(0.0, 1.0, {3})};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(RandomNumbers);

}  // namespace tenon::test
