// Splits tensors and concatenates them again.
#include "support/program.h"

namespace tenon::test {

struct CatAndSplit : Program {
  torch::nn::Linear fc{8, 12};

  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8})}; }
  Tensors run(const Tensors& in) override {
    auto h = fc->forward(in[0]);
    auto parts = h.chunk(3, 1);
    auto uneven = h.split_with_sizes({2, 7, 3}, 1);
    auto rows = h.unbind(0);
    auto swapped = torch::cat({parts[2], parts[0] * parts[1]}, 1);
    return {swapped, torch::stack({rows[1], rows[0], rows[1]}, 1), uneven[1].flip(1).roll(1, 0),
            torch::cat({uneven[0], uneven[2]}, -1).repeat({2, 1})};
  }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(CatAndSplit);

}  // namespace tenon::test
