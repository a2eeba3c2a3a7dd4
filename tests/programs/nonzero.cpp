// The count of rows depends on the values.
#include "support/program.h"

namespace tenon::test {

struct Nonzero : Program {
  Tensors inputs(int shape) override { return {torch::randn({shape ? 6 : 4, 8})}; }
  Tensors run(const Tensors& in) override {
    auto rows = (in[0].sum(1) > 0).nonzero().squeeze(1);
    return {in[0].index_select(0, rows) * 2};
  }
  std::string never_served() override { return "the shape depends on data"; }
};
TENON_PROGRAM(Nonzero);

}  // namespace tenon::test
