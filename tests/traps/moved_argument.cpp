// The program releases its argument early.
#include <utility>

#include "traps/trap.h"

namespace tenon::test {

struct MovedArgument : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(std::move(x));
    return fc2(h);
  }
};
TENON_PROGRAM(MovedArgument);

}  // namespace tenon::test
