// A list of states grows from call to call.
#include "traps/trap.h"

namespace tenon::test {

struct GrowingCache : Trap {
  torch::Tensor body(torch::Tensor x) override {
    torch::NoGradGuard off;
    auto h = fc(x).mean(0, true);
    kept = kept.defined() ? torch::cat({kept, h}) : h;
    return fc2(kept.mean(0));
  }
};
TENON_PROGRAM(GrowingCache);

}  // namespace tenon::test
