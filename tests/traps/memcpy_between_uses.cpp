// The host overwrites a buffer between two uses.
#include <cstring>

#include "traps/trap.h"

namespace tenon::test {

struct MemcpyBetweenUses : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto a = x + buffer;
    std::vector<float> fresh(8, static_cast<float>(call));
    std::memcpy(buffer.data_ptr(), fresh.data(), 8 * sizeof(float));
    return fc(a) + buffer;
  }
};
TENON_PROGRAM(MemcpyBetweenUses);

}  // namespace tenon::test
