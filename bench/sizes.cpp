// Calls whose sizes change: the cost of a size that is new, a stream of lengths, and memory per size. One thread, its CPU time.
// `bench_sizes new|stream|memory [layers]` runs one benchmark.
#include <ATen/Parallel.h>
#include <malloc.h>
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

Tensor random_ids(int64_t batch, int64_t length) { return torch::randint(3, 32000, {batch, length}); }

template <class F>
double cpu_of(F&& f) {
  double start = cpu_seconds();
  f();
  return cpu_seconds() - start;
}

Llama make_model(int64_t layers) {
  torch::manual_seed(1);
  Llama model(LlamaSizes{.layers = layers});
  model->eval();
  return model;
}

void report_recordings(const char* name, const Explanation& why) {
  report(name, static_cast<double>(why.recorded), "recordings", 0, 0);
  report((std::string(name) + ", plain").c_str(), static_cast<double>(why.plain), "calls", 0, 0);
}

// The first call with a length, and the same call again: the difference is the cost of the new size.
void bench_new(int64_t layers) {
  constexpr int64_t kBatch = 8;
  constexpr int kRepeats = 3;
  Llama model = make_model(layers);
  auto fast = compile([&](const Tensor& ids) { return model->forward(ids); }, {.name = "llama"});
  for (int64_t length : {96, 96, 112, 120, 124}) fast(random_ids(kBatch, length));
  std::vector<double> ratios, above;
  for (int64_t length : {128, 126, 122, 130, 118}) {
    Tensor ids = random_ids(kBatch, length);
    double first = cpu_of([&] { fast(ids); });
    std::vector<double> again;
    for (int i = 0; i < kRepeats; ++i) again.push_back(cpu_of([&] { fast(ids); }));
    double warm = median(again);
    ratios.push_back(first / warm);
    above.push_back(first - warm);
  }
  report("new size", median(ratios), "x the call again", 0, median(above));
  report_recordings("new size recordings", explain(fast));
}

// Lengths that all differ, beside graphs that were recorded for each of them.
void bench_stream(int64_t layers) {
  constexpr int64_t kBatch = 4, kCalls = 16;
  Llama model = make_model(layers);
  auto forward = [&](const Tensor& ids) { return model->forward(ids); };
  auto fast = compile(forward, {.name = "all sizes"});
  auto fixed = compile(forward, {.name = "one size", .recompile_limit = 100, .dynamic = Dynamic::no});
  std::vector<Tensor> inputs;
  for (int64_t i = 0; i < kCalls; ++i) inputs.push_back(random_ids(kBatch, 33 + (i * 29) % 64));
  for (const Tensor& ids : inputs)
    for (int i = 0; i < 3; ++i) fixed(ids);
  for (int64_t length : {24, 24, 27, 100, 20, 17}) fast(random_ids(kBatch, length));
  double ours = 0, theirs = 0;
  for (const Tensor& ids : inputs) {
    theirs += cpu_of([&] { fixed(ids); });
    ours += cpu_of([&] { fast(ids); });
  }
  report("stream", theirs / ours, "x graphs for each size", theirs / kCalls, ours / kCalls);
  report_recordings("stream recordings", explain(fast));
}

// Growth of the heap per size that is met.
void bench_memory(int64_t layers) {
  constexpr int64_t kSizes = 24;
  Llama model = make_model(layers);
  auto fast = compile([&](const Tensor& ids) { return model->forward(ids); }, {.name = "llama"});
  for (int64_t length : {3, 3, 5, 6, 7}) fast(random_ids(2, length));
  size_t before = mallinfo2().uordblks;
  for (int64_t i = 0; i < kSizes; ++i)
    for (int k = 0; k < 2; ++k) fast(random_ids(2, 8 + i));
  report("memory per size", static_cast<double>(mallinfo2().uordblks - before) / 1024 / kSizes, "KB", 0, 0);
}

}  // namespace

int main(int argc, char** argv) {
  torch::NoGradGuard no_grad;
  at::set_num_threads(1);
  std::string part = argc > 1 ? argv[1] : "";
  int64_t layers = argc > 2 ? std::atoll(argv[2]) : 12;
  if (part.empty() || part == "new") bench_new(layers);
  if (part.empty() || part == "stream") bench_stream(layers);
  if (part.empty() || part == "memory") bench_memory(layers);
}
