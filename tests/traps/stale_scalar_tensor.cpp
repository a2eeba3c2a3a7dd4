// A 0-d tensor that the host holds changes.
#include "traps/trap.h"

namespace tenon::test {

struct StaleScalarTensor : Trap {
  torch::Tensor factor = torch::ones({});

  torch::Tensor body(torch::Tensor x) override {
    factor.fill_(call);
    return fc(x) * factor + torch::full({}, 0.5 * call);
  }
};
TENON_PROGRAM(StaleScalarTensor);

}  // namespace tenon::test
