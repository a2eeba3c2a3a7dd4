// The program throws for one of the shapes, after it has written a buffer.
#include <stdexcept>

#include "support/program.h"

namespace tenon::test {

struct ThrowsMidway : Program {
  torch::nn::Linear fc{8, 4};
  torch::Tensor count = torch::zeros({});

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    count.add_(1);
    if (in[0].size(0) > 4) throw std::runtime_error("more than four rows");
    return {h * count.detach().clone()};
  }
  Tensors state() override { return {fc->weight, fc->bias, count}; }
};
TENON_PROGRAM(ThrowsMidway);

}  // namespace tenon::test
