// Two results that need a reduction, and a logarithm that does not: kernels keep the logarithm in the buffer of one
// result, and must read it before that result is written.
#include "support/program.h"

namespace tenon::test {

struct KeptAcrossLoops : Program {
  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 40}), torch::rand({shape ? 6 : 4, 40}) + 0.5}; }
  Tensors run(const Tensors& in) override {
    auto sum = in[0].pow(2).sum(-1, true);
    auto log = torch::log(in[1]);
    return {sum * in[0], in[0] * log + sum};
  }
};
TENON_PROGRAM(KeptAcrossLoops);

}  // namespace tenon::test
