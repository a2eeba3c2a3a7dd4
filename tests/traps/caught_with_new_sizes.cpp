// An op that cannot be deferred refuses its operands, with sizes that are new; the program continues.
#include "traps/trap.h"

namespace tenon::test {

struct CaughtWithNewSizes : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    try {
      kept = torch::multinomial(h.detach() - 100, 2);
    } catch (const std::exception&) {
      buffer.add_(1);
    }
    return fc2(h) + buffer;
  }
  Tensors inputs(int) override { return {torch::randn({2 + call, 8})}; }
};
TENON_PROGRAM(CaughtWithNewSizes);

}  // namespace tenon::test
