// The program writes to lazily cloned memory.
#include "traps/trap.h"

namespace tenon::test {

struct CopyOnWrite : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto lazy = at::_lazy_clone(buffer);
    auto h = fc(x + lazy);
    lazy.add_(call);
    buffer.mul_(0.5);
    buffer.add_(lazy);
    return fc2(h) + lazy;
  }
};
TENON_PROGRAM(CopyOnWrite);

}  // namespace tenon::test
