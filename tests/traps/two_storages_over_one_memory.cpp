// Two tensors cover the same memory through different storages: one is written, the other one is read.
#include "traps/trap.h"

namespace tenon::test {

struct TwoStoragesOverOneMemory : Trap {
  std::shared_ptr<std::vector<float>> values = std::make_shared<std::vector<float>>(16);

  torch::Tensor over(int offset) {
    return torch::from_blob(values->data() + offset, {8}, [kept = values](void*) {});
  }

  torch::Tensor body(torch::Tensor x) override {
    torch::NoGradGuard off;
    auto a = over(0), b = over(call % 3 == 2 ? 8 : 4);
    a.mul_(0.5).add_(x[0]);
    auto s = b + 1;
    a.add_(1);
    kept = s + b;
    return fc(x).detach() + b;
  }
};
TENON_PROGRAM(TwoStoragesOverOneMemory);

}  // namespace tenon::test
