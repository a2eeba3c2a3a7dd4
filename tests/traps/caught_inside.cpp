// An op refuses its operands, and the program continues.
#include "traps/trap.h"

namespace tenon::test {

struct CaughtInside : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    buffer.add_(1);
    try {
      if (call % 3 == 1) h = h + torch::ones({3});
    } catch (const std::exception&) {
      buffer.mul_(2);
    }
    return fc2(h + buffer);
  }
};
TENON_PROGRAM(CaughtInside);

}  // namespace tenon::test
