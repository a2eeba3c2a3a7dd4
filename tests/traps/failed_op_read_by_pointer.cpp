// A deferred op refuses its data; then a composite ATen op reads through a const pointer.
#include "traps/trap.h"

namespace tenon::test {

struct FailedOpReadByPointer : Trap {
  torch::Tensor body(torch::Tensor x) override {
    torch::NoGradGuard off;
    auto whole = torch::floor_divide(torch::full({4}, 7, torch::kLong), torch::full({4}, call % 3 == 2 ? 0 : 2, torch::kLong));
    buffer.add_(1);
    auto pooled = torch::max_pool1d(fc(x).unsqueeze(0), 2);
    seen.push_back(1);
    return pooled.sum() + whole.sum();
  }
  // The statement that throws differs from eager: see docs/limits.md.
  Tensors state() override { return parameters(); }
};
TENON_PROGRAM(FailedOpReadByPointer);

}  // namespace tenon::test
