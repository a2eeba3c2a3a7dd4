// The host and ops alternate in writing newly allocated memory.
#include "traps/trap.h"

namespace tenon::test {

struct PointerToEmptyWrittenByOps : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto t = torch::empty({8});
    float* p = t.data_ptr<float>();
    for (int i = 0; i < 8; ++i) p[i] = static_cast<float>(i + call);
    t.mul_(2);
    seen.push_back(p[3]);
    p[3] = 7;
    t.add_(1);
    seen.push_back(p[3]);
    return fc(x + t);
  }
};
TENON_PROGRAM(PointerToEmptyWrittenByOps);

}  // namespace tenon::test
