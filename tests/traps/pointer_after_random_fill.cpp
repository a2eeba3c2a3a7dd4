// A pointer to memory that a random op filled is written while an op that reads the memory is deferred.
#include "traps/trap.h"

namespace tenon::test {

struct PointerAfterRandomFill : Trap {
  torch::Tensor body(torch::Tensor x) override {
    auto t = torch::empty({8});
    t.bernoulli_(0.5);
    float* p = t.data_ptr<float>();
    auto h = x * t;
    p[2] = static_cast<float>(call);
    return fc(h) + t;
  }
};
TENON_PROGRAM(PointerAfterRandomFill);

}  // namespace tenon::test
