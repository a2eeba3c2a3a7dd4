// A chunk length is the minimum of two integers.
#include <algorithm>

#include "traps/trap.h"

namespace tenon::test {

struct ChunkOf64 : Trap {
  torch::Tensor body(torch::Tensor x) override {
    int64_t chunk = std::min<int64_t>(x.size(0), 64);
    auto h = fc(x.narrow(0, 0, chunk));
    return h.mean(0) + static_cast<double>(chunk);
  }
  Tensors inputs(int) override {
    static constexpr int64_t lengths[] = {32, 64, 96, 128};
    return {torch::randn({lengths[call % 4], 8})};
  }
};
TENON_PROGRAM(ChunkOf64);

}  // namespace tenon::test
