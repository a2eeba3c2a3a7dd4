// A reduced value is combined with its operand, in sizes for which both broadcast alignments are valid.
#include "support/program.h"

namespace tenon::test {

struct SquareReduced : Program {
  Tensors inputs(int shape) override { return {torch::randn({3, 3, shape ? 4 : 2})}; }
  Tensors run(const Tensors& in) override {
    auto x = torch::relu(in[0]);
    return {x.sum(1) * x, torch::le(x.all(1), x)};
  }
};
TENON_PROGRAM(SquareReduced);

}  // namespace tenon::test
