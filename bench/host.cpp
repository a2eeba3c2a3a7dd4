// Host overhead of a step: chains of kernels on a few elements, and library calls at sizes where the call overhead dominates.
// Measures CPU time on one thread.
#include <ATen/core/dispatch/Dispatcher.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <string>

#include "bench/timing.h"

using namespace tenon;
using namespace tenon::bench;
using torch::Tensor;

namespace {

constexpr int kRounds = 31, kCalls = 2000;

// A chain of kernels: sums along alternating dimensions cannot be fused. With `broken`, an ATen op at the end prevents a flat plan.
Tensor chain(Tensor x, int64_t steps, bool broken) {
  for (int64_t i = 0; i < steps; ++i) x = x - x.sum(i % 2, /*keepdim=*/true);
  return broken ? torch::cumsum(x, 0) : x;
}

// The cost of one more kernel, from the difference between a longer and a shorter chain.
void bench_steps(const char* name, bool broken) {
  torch::NoGradGuard no_grad;
  Tensor x = torch::randn({2, 2});
  Options options;
  options.trust = Trust::pure;
  options.mode = Mode::reduce_overhead;
  std::vector<std::function<void()>> ways;
  std::vector<double> kernels;
  for (int64_t steps : {8, 72}) {
    auto fast = compile([=](const Tensor& in) { return chain(in, steps, broken); }, options);
    for (int i = 0; i < 4; ++i) fast(x);
    kernels.push_back(static_cast<double>(explain(fast).graphs.at(0).kernels.size()));
    ways.push_back([=]() mutable { fast(x); });
  }
  ways.push_back([=] { chain(x, 64, false); });
  auto times = side_by_side(ways, kRounds, kCalls / 10);
  double step = (times[1] - times[0]) / (kernels[1] - kernels[0]);
  report(name, step * 1e9, "ns a step", times[2] / 64, step);
}

void bench_call(const char* name, const std::function<void()>& call) {
  torch::NoGradGuard no_grad;
  double seconds = side_by_side({call}, kRounds, kCalls)[0];
  report(name, seconds * 1e9, "ns a call", seconds, seconds);
}

void bench_op(const char* name, const char* op, std::vector<c10::IValue> stack) {
  auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(op, "");
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset);
  bench_call(name, [=] {
    torch::jit::Stack now = stack;
    handle.callBoxed(&now);
  });
}

}  // namespace

int main() {
  torch::set_num_threads(1);
  torch::manual_seed(0);
  bench_steps("kernel step, small network", false);
  bench_steps("kernel step", true);
  Tensor x = torch::randn({1, 16}), w = torch::randn({16, 16}), out = torch::empty({1, 16});
  bench_call("aten::mm.out, 1 x 16 x 16", [&] { at::mm_out(out, x, w); });
  c10::List<std::optional<at::Scalar>> none;
  auto reorder = c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_reorder_linear_weight", "");
  torch::jit::Stack stack = {w, int64_t{1}};
  reorder.callBoxed(&stack);
  bench_op("oneDNN linear, 1 x 16 x 16", "mkldnn::_linear_pointwise", {x, stack[0], c10::IValue(), "none", none, ""});
  Tensor q = torch::randn({1, 1, 1, 16});
  bench_op("flash attention, one query, one key", "aten::_scaled_dot_product_flash_attention_for_cpu",
           {q, q, q, 0.0, false, c10::IValue(), c10::IValue()});
  Tensor image = torch::randn({1, 1, 3, 3}), filter = torch::randn({1, 1, 3, 3});
  std::vector<int64_t> one = {1, 1}, zero = {0, 0};
  bench_op("aten::convolution, one number", "aten::convolution", {image, filter, c10::IValue(), one, zero, one, false, zero, int64_t{1}});
  bench_call("aten::view, dispatched", [&] { x.view({4, 4}); });
}
