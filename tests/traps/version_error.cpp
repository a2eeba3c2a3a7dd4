// On some calls an in-place write invalidates a tensor that the backward needs.
#include "traps/trap.h"

namespace tenon::test {

struct VersionError : Trap {
  torch::Tensor body(torch::Tensor x) override {
    clear_gradients();
    auto h = fc(x).sigmoid();
    auto loss = fc2(h).sum();
    if (call % 3 == 1) h.detach().add_(1), h.add_(1);
    loss.backward();
    return loss.detach();
  }
};
TENON_PROGRAM(VersionError);

}  // namespace tenon::test
