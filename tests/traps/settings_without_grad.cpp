// Settings that ops depend on change between calls, with grad mode off.
#include <ATen/Context.h>

#include "traps/trap.h"

namespace tenon::test {

struct SettingsWithoutGrad : Trap {
  void around(const std::function<void()>& run) override {
    torch::NoGradGuard off;
    at::globalContext().setSDPUseFlash(call % 4 != 2);
    at::globalContext().setDeterministicAlgorithms(call % 5 == 4, true);
    run();
    at::globalContext().setSDPUseFlash(true);
    at::globalContext().setDeterministicAlgorithms(false, true);
  }
  torch::Tensor body(torch::Tensor x) override {
    auto h = fc(x).view({1, x.size(0), 2, 4}).transpose(1, 2);
    auto a = torch::scaled_dot_product_attention(h, h, h);
    if (call % 3 == 1) a = a * 1.5;
    if (call % 6 == 3) {
      c10::set_default_dtype(c10::scalarTypeToTypeMeta(torch::kDouble));
      seen.push_back(double(torch::arange(3.0).scalar_type() == torch::kDouble));
      c10::set_default_dtype(c10::scalarTypeToTypeMeta(torch::kFloat));
    }
    buffer.add_(a.sum());
    return a;
  }
};
TENON_PROGRAM(SettingsWithoutGrad);

}  // namespace tenon::test
