// Results are the input itself and views of it.
#include "support/program.h"

namespace tenon::test {

struct OutputsAliasInputs : Program {
  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 4})}; }
  Tensors run(const Tensors& in) override {
    in[0].add_(1);
    return {in[0].view(-1), in[0], in[0].t(), in[0].narrow(0, 1, 2), in[0] * 2};
  }
};
TENON_PROGRAM(OutputsAliasInputs);

}  // namespace tenon::test
