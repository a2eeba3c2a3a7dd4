// Some calls pass the same tensor twice.
#include "traps/trap.h"

namespace tenon::test {

struct AliasedArguments : Trap {
  torch::Tensor other;

  torch::Tensor body(torch::Tensor x) override {
    x.mul_(2);
    other.add_(1);
    return fc(x) + other;
  }
  Tensors run(const Tensors& in) override {
    other = call % 3 == 1 ? in[0] : in[1];
    ++runs;
    return {body(in[0])};
  }
  Tensors inputs(int shape) override { return {torch::randn({4, 8}), torch::randn({4, 8})}; }
};
TENON_PROGRAM(AliasedArguments);

}  // namespace tenon::test
