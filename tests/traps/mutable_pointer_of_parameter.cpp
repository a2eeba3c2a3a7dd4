// The host changes a parameter in the middle of the call.
#include "traps/trap.h"

namespace tenon::test {

struct MutablePointerOfParameter : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto a = fc(x);
    {
      torch::NoGradGuard off;
      fc->weight.data_ptr<float>()[call] += 1;
    }
    auto b = fc(x);
    return fc2(a.detach() + b);
  }
};
TENON_PROGRAM(MutablePointerOfParameter);

}  // namespace tenon::test
