// A number changes, later the program goes on otherwise, then the number comes back.
#include "traps/trap.h"

namespace tenon::test {

struct NumberThenBranch : Trap {
  torch::Tensor body(torch::Tensor x) override {
    double number = call < 3 || call > 7 ? 1.5 : 0.75;
    auto h = x * number;
    return call < 5 ? h.tanh() : h.sigmoid() + 1;
  }
};
TENON_PROGRAM(NumberThenBranch);

}  // namespace tenon::test
