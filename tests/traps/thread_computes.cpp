// Another thread computes with an intermediate result.
#include <thread>

#include "traps/trap.h"

namespace tenon::test {

struct ThreadComputes : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x);
    torch::Tensor sum;
    std::thread other([&] {
      torch::NoGradGuard off;
      sum = h.sum(0) * 2;
    });
    other.join();
    return fc2(h) + sum;
  }
};
TENON_PROGRAM(ThreadComputes);

}  // namespace tenon::test
