// A submodule is replaced.
#include "traps/trap.h"

namespace tenon::test {

struct ReplacedSubmodule : Trap {
  torch::nn::Linear inner{8, 8};

  torch::Tensor body(torch::Tensor x) override {
    if (call == 4) inner = torch::nn::Linear(8, 8);
    if (call == 8) inner = torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false));
    return fc2(inner(fc(x)));
  }
};
TENON_PROGRAM(ReplacedSubmodule);

}  // namespace tenon::test
