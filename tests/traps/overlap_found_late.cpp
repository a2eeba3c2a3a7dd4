// A write is deferred before an op that cannot be deferred uses a second storage over the same memory.
#include "traps/trap.h"

namespace tenon::test {

struct OverlapFoundLate : Trap {
  torch::Tensor owner = torch::zeros({16});

  torch::Tensor body(torch::Tensor x) override {
    torch::NoGradGuard off;
    owner.add_(x.sum());
    auto alias = torch::from_blob(owner.data_ptr<float>() + 4, {8}, [kept = owner](void*) {});
    owner.mul_(0.5);
    seen.push_back(alias[0].item<double>());
    alias.sub_(1);
    return owner * 2 + x[0][0];
  }
};
TENON_PROGRAM(OverlapFoundLate);

}  // namespace tenon::test
