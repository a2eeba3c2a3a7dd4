// Autograd metadata of views that were made with grad mode off, and version counters.
#include "traps/trap.h"

namespace tenon::test {

struct ViewsWithoutGrad : Trap {
  void around(const std::function<void()>& run) override {
    torch::NoGradGuard off;
    run();
  }
  torch::Tensor body(torch::Tensor x) override {
    auto flat = x.view({-1}), slice = flat.narrow(0, 0, 8), h = fc(x);
    auto row = h.select(0, 1);
    slice.mul_(2);
    row.add_(slice);
    for (const torch::Tensor& t : {flat, slice, h, row, x, fc->weight.t()})
      seen.insert(seen.end(), {double(t._version()), double(t.is_view()), double(t.requires_grad()), double(t.is_leaf())});
    seen.push_back(row._base().is_same(h));
    if (call % 3 == 2) {
      at::AutoGradMode on(true);
      seen.push_back(double((fc->weight.t() * 2).requires_grad()));
      try {
        fc->bias.view({2, 4});
        row.mul_(fc->bias);
      } catch (const c10::Error&) {
        seen.push_back(-1);
      }
    }
    kept = row;
    return h + 1;
  }
};
TENON_PROGRAM(ViewsWithoutGrad);

}  // namespace tenon::test
