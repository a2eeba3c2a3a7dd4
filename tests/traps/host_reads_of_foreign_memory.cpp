// The host reads a from_blob tensor's memory through its own pointer, after an op has written it.
#include "traps/trap.h"

namespace tenon::test {

struct HostReadsOfForeignMemory : Trap {
  std::shared_ptr<std::vector<float>> frame = std::make_shared<std::vector<float>>(8, 1.0F);

  torch::Tensor body(torch::Tensor x) override {
    torch::NoGradGuard off;
    auto t = torch::from_blob(frame->data(), {8}, [kept = frame](void*) {});
    t.mul_(0.5).add_(x[0]);
    seen.push_back((*frame)[3]);
    return (*frame)[0] > 0 ? x * 2 : x + t;
  }
};
TENON_PROGRAM(HostReadsOfForeignMemory);

}  // namespace tenon::test
