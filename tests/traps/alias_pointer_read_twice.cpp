// A pointer from an alias that is older than the call is read before and after a second write.
#include "traps/trap.h"

namespace tenon::test {

struct AliasPointerReadTwice : Trap {
  torch::Tensor state_ = torch::zeros({8}), alias = state_.detach();

  torch::Tensor body(torch::Tensor x) override {
    torch::NoGradGuard off;
    state_.add_(x[0]);
    const float* values = alias.const_data_ptr<float>();
    seen.push_back(values[0]);
    state_.add_(x[1]);
    seen.push_back(values[0]);
    return state_ * 2;
  }
};
TENON_PROGRAM(AliasPointerReadTwice);

}  // namespace tenon::test
