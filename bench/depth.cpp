// Compile work and time of a call by depth: narrow Llamas of 16 to 128 layers. `bench_depth [LAYERS ...]`. One thread, its CPU time.
// bench/depth.py compares with Inductor.
#include <ATen/Parallel.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/models/llama.h"
#include "bench/timing.h"

using namespace tenon;
using namespace tenon::bench;

namespace {

constexpr int kFirstCalls = 4;  // These record and compile.

template <class F>
double cpu_of(F&& f) {
  double start = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
  f();
  return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
}

// `step` runs the program once, compiled by `fast` or by itself.
void measure(const std::string& name, const std::function<void()>& eager, const std::function<void()>& ours, Region& region) {
  eager();
  double first_eager = cpu_of([&] {
    for (int i = 0; i < kFirstCalls; ++i) eager();
  });
  double first = cpu_of([&] {
    for (int i = 0; i < kFirstCalls; ++i) ours();
  });
  std::vector<double> times = side_by_side({eager, ours}, 5, 2);
  report((name + " compile").c_str(), first - first_eager, "CPU seconds above eager", first_eager, first);
  report((name + " call").c_str(), times[0] / times[1], "x eager", times[0], times[1]);
  Explanation why = explain(region);
  std::printf("#");
  for (const auto& [phase, seconds] : why.phases) std::printf(" %s %.4f", phase.c_str(), seconds);
  std::printf(" answered %zu of %zu, compiled backward passes %zu\n", why.answered, why.calls, why.backwards.whole);
}

void bench_depth(int64_t layers) {
  torch::manual_seed(1);
  Llama model(LlamaSizes{.layers = layers, .width = 192, .heads = 6, .kv_heads = 2, .inner = 512, .vocabulary = 1000});
  torch::Tensor ids = torch::randint(3, 1000, {2, 16});
  auto forward = [&](const torch::Tensor& x) { return model->forward(x); };
  std::string name = "llama " + std::to_string(layers);
  {
    torch::NoGradGuard no_grad;
    auto fast = compile(forward, {.name = "forward"});
    measure(
        name + " forward", [&] { forward(ids); }, [&] { fast(ids); }, *fast.region());
  }
  auto fast = compile(forward, {.name = "training"});
  auto step = [&](auto&& run) {
    model->zero_grad();
    run(ids).pow(2).mean().backward();
  };
  measure(
      name + " training", [&] { step(forward); }, [&] { step(fast); }, *fast.region());
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  if (argc == 1)
    for (int64_t layers : {16, 32, 64, 128}) bench_depth(layers);
  for (int i = 1; i < argc; ++i) bench_depth(std::atoll(argv[i]));
}
