// A user-defined op that writes its first argument, on a buffer and on an input.
#include <torch/library.h>

#include "support/program.h"

namespace tenon::test {

TORCH_LIBRARY(tenon_corpus_in_place, m) { m.def("accumulate_(Tensor(a!) x, Tensor y, float scale) -> Tensor(a!)"); }
TORCH_LIBRARY_IMPL(tenon_corpus_in_place, CPU, m) {
  m.impl("accumulate_", [](torch::Tensor& x, const torch::Tensor& y, double scale) -> torch::Tensor& { return x.add_(y, scale); });
}

struct UserOpInPlace : Program {
  using Accumulate = torch::Tensor&(torch::Tensor&, const torch::Tensor&, double);
  torch::Tensor total = torch::zeros({8});
  c10::TypedOperatorHandle<Accumulate> accumulate =
      c10::Dispatcher::singleton().findSchemaOrThrow("tenon_corpus_in_place::accumulate_", "").typed<Accumulate>();

  Tensors inputs(int shape) override { return {torch::randn({shape ? 5 : 3, 8})}; }
  void around(const std::function<void()>& call) override {
    torch::NoGradGuard off;
    call();
  }
  Tensors run(const Tensors& in) override {
    accumulate.call(total, in[0].sum(0), 0.5);
    auto row = in[0][1];
    accumulate.call(row, total, 2.0);
    return {in[0] * 2, total + 1};
  }
  Tensors state() override { return {total}; }
};
TENON_PROGRAM(UserOpInPlace);

}  // namespace tenon::test
