// The program throws after it has written a buffer.
#include <stdexcept>

#include "traps/trap.h"

namespace tenon::test {

struct ThrowAfterWrite : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    buffer.add_(h.detach().mean(0));
    if (call % 4 == 2) throw std::runtime_error("on purpose");
    return fc2(h + buffer);
  }
};
TENON_PROGRAM(ThrowAfterWrite);

}  // namespace tenon::test
