// A user-defined pure op with a CPU kernel, and one composed of torch ops.
#include <torch/library.h>

#include "support/program.h"

namespace tenon::test {

TORCH_LIBRARY(tenon_corpus_pure, m) {
  m.def("shrink(Tensor x, float by) -> Tensor");
  m.def("double_relu(Tensor x) -> Tensor", [](const torch::Tensor& x) { return torch::relu(x) * 2; });
}
TORCH_LIBRARY_IMPL(tenon_corpus_pure, CPU, m) {
  m.impl("shrink", [](const torch::Tensor& x, double by) {
    auto y = torch::empty_like(x, torch::MemoryFormat::Contiguous);
    auto source = x.contiguous();
    for (int64_t i = 0; i < x.numel(); ++i) y.data_ptr<float>()[i] = source.data_ptr<float>()[i] * static_cast<float>(1 - by);
    return y;
  });
}

struct UserOp : Program {
  torch::nn::Linear fc{8, 4};
  c10::TypedOperatorHandle<torch::Tensor(const torch::Tensor&, double)> shrink =
      c10::Dispatcher::singleton().findSchemaOrThrow("tenon_corpus_pure::shrink", "").typed<torch::Tensor(const torch::Tensor&, double)>();
  c10::TypedOperatorHandle<torch::Tensor(const torch::Tensor&)> double_relu =
      c10::Dispatcher::singleton().findSchemaOrThrow("tenon_corpus_pure::double_relu", "").typed<torch::Tensor(const torch::Tensor&)>();

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  Tensors run(const Tensors& in) override { return {double_relu.call(fc->forward(shrink.call(in[0], 0.25)))}; }
  Tensors state() override { return fc->parameters(); }
};
TENON_PROGRAM(UserOp);

}  // namespace tenon::test
