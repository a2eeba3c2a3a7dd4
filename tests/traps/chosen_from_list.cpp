// A member selects one of several tensors.
#include "traps/trap.h"

namespace tenon::test {

struct ChosenFromList : Trap {
  std::vector<torch::Tensor> choices{torch::randn({8}), torch::randn({8}), torch::randn({8})};

  torch::Tensor body(torch::Tensor x) override { return fc(x) + choices[call % 3]; }
};
TENON_PROGRAM(ChosenFromList);

}  // namespace tenon::test
