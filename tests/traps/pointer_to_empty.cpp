// A pointer to uninitialized memory is kept and written between ops.
#include "traps/trap.h"

namespace tenon::test {

struct PointerToEmpty : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto t = torch::empty({4, 8});
    float* p = t.data_ptr<float>();
    for (int i = 0; i < 32; ++i) p[i] = static_cast<float>(i * call);
    auto h = fc(t);
    for (int i = 0; i < 32; ++i) p[i] = static_cast<float>(-i);
    return fc2(t) + h + x.sum();
  }
};
TENON_PROGRAM(PointerToEmpty);

}  // namespace tenon::test
