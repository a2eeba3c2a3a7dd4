// The program calls manual_seed between two dropouts.
#include "traps/trap.h"

namespace tenon::test {

struct SeedBetweenDropouts : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = torch::dropout(fc(x), 0.5, true);
    torch::manual_seed(40 + call / 2);
    return torch::dropout(fc2(h), 0.3, true);
  }
};
TENON_PROGRAM(SeedBetweenDropouts);

}  // namespace tenon::test
