// The default element type changes.
#include "traps/trap.h"

namespace tenon::test {

struct DefaultDtype : Trap {
  torch::Tensor body(torch::Tensor x) override {
    return fc(x) + torch::ones({8}).sum().to(torch::kFloat) / torch::full({}, 3.0).item<double>();
  }
  void around(const std::function<void()>& run) override {
    torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
    if (call % 3 == 1) torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
    run();
    torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
  }
};
TENON_PROGRAM(DefaultDtype);

}  // namespace tenon::test
