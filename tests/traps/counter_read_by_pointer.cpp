// An op increments a counter, and the program reads it through a pointer.
#include "traps/trap.h"

namespace tenon::test {

struct CounterReadByPointer : Trap {
  torch::Tensor count = torch::zeros({1}, torch::kLong);

  torch::Tensor body(torch::Tensor x) override {
    count.add_(1);
    auto h = fc(x);
    if (count.data_ptr<int64_t>()[0] % 2) h = h * 3;
    return fc2(h);
  }
};
TENON_PROGRAM(CounterReadByPointer);

}  // namespace tenon::test
