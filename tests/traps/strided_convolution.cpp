// conv1d with stride 2 runs on lengths 8, 16 and 9.
#include "traps/trap.h"

namespace tenon::test {

struct StridedConvolution : Trap {
  torch::Tensor weight = torch::randn({4, 3, 3}).requires_grad_();

  torch::Tensor body(torch::Tensor x) override { return torch::conv1d(x, weight, {}, 2, 1).relu().sum(2); }
  Tensors inputs(int) override {
    static constexpr int64_t lengths[] = {8, 16, 9};
    return {torch::randn({2, 3, lengths[call % 3]})};
  }
  Tensors state() override { return {weight}; }
};
TENON_PROGRAM(StridedConvolution);

}  // namespace tenon::test
