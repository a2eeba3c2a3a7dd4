// Fused kernels compared with eager: CPU time on one thread, with newly allocated outputs. bench/inductor.py
// runs the same programs with Inductor.
#include <tenon/compile.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

#include "bench/timing.h"

using namespace tenon;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

namespace {

struct Kernel {
  const char* name;
  std::function<Tensors()> inputs;
  std::function<Tensors(const Tensors&)> run;
};

Tensor rotated(const Tensor& x) {
  auto halves = x.chunk(2, -1);
  return torch::cat({-halves[1], halves[0]}, -1);
}

std::vector<Kernel> kernels() {
  return {
      {"bias_gelu_residual",
       [] {
         return Tensors{torch::randn({512, 3072}), torch::randn({3072}), torch::randn({512, 3072})};
       },
       [](const Tensors& in) { return Tensors{torch::gelu(in[0] + in[1], "tanh") + in[2]}; }},
      {"residual_layer_norm",
       [] {
         return Tensors{torch::randn({512, 768}), torch::randn({512, 768}), torch::randn({768}), torch::randn({768})};
       },
       [](const Tensors& in) {
         Tensor sum = in[0] + in[1];
         auto [out, mean, rstd] = torch::native_layer_norm(sum, {768}, in[2], in[3], 1e-5);
         return Tensors{sum, out, mean, rstd};
       }},
      {"scale_mask_softmax",
       [] {
         return Tensors{torch::randn({6144, 512}), torch::where(torch::rand({512}) < 0.1, -INFINITY, 0.0)};
       },
       [](const Tensors& in) { return Tensors{torch::softmax(in[0] * 0.125 + in[1], -1)}; }},
      {"rms_norm",
       [] {
         return Tensors{torch::randn({2048, 768}), torch::randn({768})};
       },
       [](const Tensors& in) { return Tensors{in[0] * torch::rsqrt(in[0].pow(2).mean(-1, true) + 1e-6) * in[1]}; }},
      {"rope",
       [] {
         return Tensors{torch::randn({4, 12, 512, 64}), torch::randn({512, 64}), torch::randn({512, 64})};
       },
       [](const Tensors& in) { return Tensors{in[0] * in[1] + rotated(in[0]) * in[2]}; }},
      {"swiglu",
       [] {
         return Tensors{torch::randn({512, 3072}), torch::randn({512, 3072})};
       },
       [](const Tensors& in) { return Tensors{torch::silu(in[0]) * in[1]}; }},
      {"log_softmax_nll",
       [] {
         return Tensors{torch::randn({512, 8192}), torch::randint(8192, {512})};
       },
       [](const Tensors& in) { return Tensors{torch::nll_loss(torch::log_softmax(in[0], -1), in[1])}; }},
      {"adamw",
       [] {
         return Tensors{torch::randn({1 << 20}), torch::randn({1 << 20}), torch::randn({1 << 20}), torch::rand({1 << 20})};
       },
       [](const Tensors& in) {
         Tensor m = in[2] * 0.9 + in[1] * 0.1;
         Tensor v = in[3] * 0.999 + in[1] * in[1] * 0.001;
         Tensor p = in[0] * (1 - 1e-5) - 1e-3 * (m / 0.5) / ((v / 0.25).sqrt() + 1e-8);
         return Tensors{p, m, v};
       }},
  };
}

}  // namespace

int main() {
  at::set_num_threads(1);
  torch::NoGradGuard no_grad;
  torch::manual_seed(0);
  for (const Kernel& kernel : kernels()) {
    Tensors in = kernel.inputs();
    auto fast = tenon::compile(kernel.run, {.backend = "native", .trust = Trust::pure, .name = kernel.name});
    auto times = bench::side_by_side({[&] { kernel.run(in); }, [&] { fast(in); }}, 30, 5);
    bench::report(kernel.name, times[0] / times[1], "x eager", times[0], times[1]);
  }
}
