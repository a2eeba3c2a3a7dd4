// Each call writes another slice of one big tensor.
#include "traps/trap.h"

namespace tenon::test {

struct WrittenSliceOfData : Trap {
  torch::Tensor data = torch::randn({64, 8});

  torch::Tensor body(torch::Tensor x) override {
    x.add_(fc(x).detach());
    x.narrow(1, 0, 2).mul_(2);
    return fc2(x);
  }
  Tensors inputs(int shape) override { return {data.narrow(0, 4 * (call % 12), 4)}; }
  Tensors state() override {
    Tensors all = Trap::state();
    all.push_back(data);
    return all;
  }
};
TENON_PROGRAM(WrittenSliceOfData);

}  // namespace tenon::test
