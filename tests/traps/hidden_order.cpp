// A member decides the order of two ops.
#include "traps/trap.h"

namespace tenon::test {

struct HiddenOrder : Trap {
  torch::Tensor body(torch::Tensor x) override { return call % 3 == 1 ? fc2(fc(x)) : fc(fc2(x)); }
};
TENON_PROGRAM(HiddenOrder);

}  // namespace tenon::test
