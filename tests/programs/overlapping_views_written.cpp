// Two inputs overlap partially, and both are written.
#include "support/program.h"

namespace tenon::test {

struct OverlappingViewsWritten : Program {
  Tensors inputs(int shape) override {
    auto base = torch::randn({shape ? 12 : 8});
    return {base, base.narrow(0, 2, 4), base.narrow(0, 4, 4)};
  }
  void around(const std::function<void()>& call) override {
    torch::NoGradGuard off;
    call();
  }
  Tensors run(const Tensors& in) override {
    in[1].mul_(in[2].clone());
    in[0].add_(1);
    in[2].copy_(in[1].sigmoid());
    auto sum = in[0] + 1;
    in[1][0].fill_(7);
    return {sum, in[0].sum(), in[2] * 2};
  }
};
TENON_PROGRAM(OverlappingViewsWritten);

}  // namespace tenon::test
