// The program requests pointers before the first op uses the tensor, and reads and writes through them between ops.
#include "traps/trap.h"

namespace tenon::test {

struct PointerBeforeTheFirstOp : Trap {
  torch::Tensor body(torch::Tensor x) override {
    torch::NoGradGuard off;
    const float* argument = x.const_data_ptr<float>();
    x.add_(1);
    seen.push_back(argument[0]);
    auto y = x * 2;
    x.sub_(3);
    seen.push_back(argument[0]);
    return y + x;
  }
};
TENON_PROGRAM(PointerBeforeTheFirstOp);

struct WritablePointerBeforeTheFirstOp : Trap {
  torch::Tensor body(torch::Tensor x) override {
    torch::NoGradGuard off;
    float* argument = x.data_ptr<float>();
    auto y = x * 2;
    argument[3] = static_cast<float>(call);
    auto z = y + x;
    argument[3] = -1;
    return z;
  }
};
TENON_PROGRAM(WritablePointerBeforeTheFirstOp);

}  // namespace tenon::test
