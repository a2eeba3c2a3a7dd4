// An op increments a counter, and item() reads it.
#include "traps/trap.h"

namespace tenon::test {

struct CounterReadByItem : Trap {
  torch::Tensor count = torch::zeros({}, torch::kLong);

  torch::Tensor body(torch::Tensor x) override {
    count.add_(1);
    auto h = fc(x);
    if (count.item<int64_t>() % 3 == 0) h = h * 3;
    return fc2(h);
  }
};
TENON_PROGRAM(CounterReadByItem);

}  // namespace tenon::test
