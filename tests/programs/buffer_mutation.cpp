// Hand-written running statistics that are written before and after they are read.
#include "support/program.h"

namespace tenon::test {

struct BufferMutation : Program {
  torch::nn::Linear fc{8, 4};
  torch::Tensor mean = torch::zeros({4}), count = torch::zeros({}, torch::kLong);

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    count.add_(1);
    mean.mul_(0.9).add_(h.detach().mean(0), 0.1);
    auto y = h - mean / count;
    mean[0].zero_();
    return {y, y + mean};
  }
  Tensors state() override { return {fc->weight, fc->bias, mean, count}; }
};
TENON_PROGRAM(BufferMutation);

}  // namespace tenon::test
