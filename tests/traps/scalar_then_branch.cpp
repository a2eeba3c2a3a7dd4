// A scalar changes, later the program takes another branch, then the scalar returns to its old value.
#include "traps/trap.h"

namespace tenon::test {

struct ScalarThenBranch : Trap {
  torch::Tensor body(torch::Tensor x) override {
    double factor = call < 3 || call > 7 ? 1.5 : 0.75;
    auto h = x * factor;
    return call < 5 ? h.tanh() : h.sigmoid() + 1;
  }
};
TENON_PROGRAM(ScalarThenBranch);

}  // namespace tenon::test
