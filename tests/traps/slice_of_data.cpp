// The argument is another slice of one big tensor in each call.
#include "traps/trap.h"

namespace tenon::test {

struct SliceOfData : Trap {
  torch::Tensor data = torch::randn({64, 8});

  torch::Tensor body(torch::Tensor x) override { return fc2(fc(x).relu()); }
  Tensors inputs(int shape) override { return {data.narrow(0, 4 * (call % 12), 4)}; }
};
TENON_PROGRAM(SliceOfData);

}  // namespace tenon::test
