// A buffer is read through an expanded view while it changes.
#include "traps/trap.h"

namespace tenon::test {

struct WriteThroughExpand : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto wide = buffer.expand({x.size(0), 8});
    auto a = x + wide;
    buffer.add_(1);
    return fc(a) * wide;
  }
};
TENON_PROGRAM(WriteThroughExpand);

}  // namespace tenon::test
