// Calls whose sizes change: the cost of a size that is new, a stream of lengths, memory per size, and text generation with batches of all
// sizes. One thread, its CPU time. `bench_sizes new|stream|memory|generate [layers]` runs one benchmark. `bench_sizes serve [layers]` reads
// lengths and times a call for each; bench/sizes.py uses it.
#include <ATen/Parallel.h>
#include <malloc.h>
#include <tenon/compile.h>
#include <tenon/generate.h>
#include <tenon/inspect.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <numeric>
#include <random>
#include <string>

#include "bench/models/causal.h"
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

// The first call with a length, and the third one: the difference is the cost of the new size. Other load of the machine changes the time
// of single calls by a third, so the fastest of 32 lengths counts, per token.
void bench_new(int64_t layers) {
  constexpr int64_t kBatch = 8;
  Llama model = make_model(layers);
  auto fast = compile([&](const Tensor& ids) { return model->forward(ids); }, {.name = "llama"});
  for (int64_t length : {96, 96, 100, 104, 108}) fast(random_ids(kBatch, length));
  std::array<double, 3> fastest;
  fastest.fill(1e9);
  for (int64_t length = 112; length < 144; ++length) {
    Tensor ids = random_ids(kBatch, length);
    for (double& seconds : fastest) seconds = std::min(seconds, cpu_of([&] { fast(ids); }) / static_cast<double>(length));
  }
  report("new size", fastest[0] / fastest[2], "x the call again", fastest[2] * 128, fastest[0] * 128);
  report_recordings("new size recordings", explain(fast));
}

constexpr int64_t kStreamBatch = 4;

// Lengths that all differ, beside graphs that were recorded for each of them. Every round compiles the function anew; the fastest round of
// each length counts. bench/sizes.py has the same lengths.
void bench_stream(int64_t layers) {
  constexpr int64_t kCalls = 16;
  constexpr int kRounds = 4;
  Llama model = make_model(layers);
  auto forward = [&](const Tensor& ids) { return model->forward(ids); };
  auto fixed = compile(forward, {.name = "one size", .recompile_limit = 100, .dynamic = Dynamic::no});
  std::vector<Tensor> inputs;
  for (int64_t i = 0; i < kCalls; ++i) inputs.push_back(random_ids(kStreamBatch, 33 + (i * 29) % 64));
  for (const Tensor& ids : inputs)
    for (int i = 0; i < 3; ++i) fixed(ids);
  std::vector<double> ours(inputs.size(), 1e9), theirs = ours;
  Explanation worst;
  for (int round = 0; round < kRounds; ++round) {
    auto fast = compile(forward, {.name = "all sizes"});
    for (int64_t length : {24, 24, 27, 100, 20, 17}) fast(random_ids(kStreamBatch, length));
    for (size_t i = 0; i < inputs.size(); ++i) {
      theirs[i] = std::min(theirs[i], cpu_of([&] { fixed(inputs[i]); }));
      ours[i] = std::min(ours[i], cpu_of([&] { fast(inputs[i]); }));
    }
    Explanation why = explain(fast);
    worst.recorded = std::max(worst.recorded, why.recorded);
    worst.plain = std::max(worst.plain, why.plain);
  }
  auto mean = [](const std::vector<double>& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0) / kCalls; };
  report("stream", mean(theirs) / mean(ours), "x graphs for each size", mean(theirs), mean(ours));
  report_recordings("stream recordings", worst);
}

// Reads lengths and prints the CPU seconds of the process for a call with each, and the number of recordings so far.
void serve_lengths(int64_t layers) {
  Llama model = make_model(layers);
  auto fast = compile([&](const Tensor& ids) { return model->forward(ids); }, {.name = "all sizes"});
  for (int64_t length; std::cin >> length;) {
    Tensor ids = random_ids(kStreamBatch, length);
    std::clock_t start = std::clock();
    fast(ids);
    double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::printf("%.6f %zu\n", seconds, explain(fast).recorded);
    std::fflush(stdout);
  }
}

// Growth of the heap by sizes that are met: by the first four, which are the number that a program of this length keeps whole, and per
// further size.
void bench_memory(int64_t layers) {
  Llama model = make_model(layers);
  auto fast = compile([&](const Tensor& ids) { return model->forward(ids); }, {.name = "llama"});
  int64_t next = 3;
  auto growth_by = [&](int64_t sizes) {
    size_t before = mallinfo2().uordblks;
    for (int64_t i = 0; i < sizes; ++i, ++next)
      for (int k = 0; k < 2; ++k) fast(random_ids(2, next));
    return (static_cast<double>(mallinfo2().uordblks) - static_cast<double>(before)) / 1024;
  };
  growth_by(3);  // The recording, and the graph for all sizes.
  report("memory of the sizes used last", growth_by(4), "KB", 0, 0);
  constexpr int64_t kSizes = 12;
  report("memory per size", growth_by(kSizes) / kSizes, "KB", 0, 0);
}

using Prompts = std::vector<std::vector<int64_t>>;

GenerateOptions tokens_of(int64_t count) { return {.max_new_tokens = count, .stop = std::vector<int64_t>()}; }

// All batch sizes from 1 to 64 in random order, with prompts of random lengths. The cache has a capacity of 2,048 tokens at first and is
// doubled when a text does not fit. That happens twice, so batches of many sizes use each of the three capacities.
void bench_batch_sizes() {
  constexpr int64_t kVocabulary = 2048;
  Generator generate(make_causal_model(/*layers=*/4, /*width=*/256, /*heads=*/8, kVocabulary));
  std::mt19937 random(5);
  auto between = [&](int64_t low, int64_t high) { return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1)); };
  auto prompt_of = [&](int64_t length) {
    std::vector<int64_t> prompt(static_cast<size_t>(length));
    for (int64_t& id : prompt) id = between(3, kVocabulary - 1);
    return prompt;
  };
  auto run = [&](int64_t batch) {
    Prompts prompts;
    for (int64_t i = 0; i < batch; ++i) prompts.push_back(prompt_of(between(1, 100)));
    generate(prompts, tokens_of(6));
  };
  auto outgrow = [&](int64_t capacity) {  // The prompt fits into the cache, but not its text.
    generate({prompt_of(capacity - 8), prompt_of(between(1, 100))}, tokens_of(24));
  };
  auto count = [&](size_t Explanation::*calls) { return explain(*generate.prefill()).*calls + explain(*generate.decode()).*calls; };

  for (int64_t batch : {1, 1, 3, 3, 5, 7, 9}) run(batch);
  size_t recorded = count(&Explanation::recorded), calls = count(&Explanation::calls);
  std::vector<int64_t> batches(64);
  std::iota(batches.begin(), batches.end(), 1);
  std::shuffle(batches.begin(), batches.end(), random);
  for (size_t i = 0; i < batches.size(); ++i) {
    if (i == 21) outgrow(2048);
    if (i == 42) outgrow(4096);
    run(batches[i]);
  }
  report("generator recordings", static_cast<double>(count(&Explanation::recorded) - recorded), "recordings", 0, 0);
  report("generator recordings, plain", static_cast<double>(count(&Explanation::plain)), "calls", 0, 0);
  report("generator steps after the warm-up", static_cast<double>(count(&Explanation::calls) - calls), "calls", 0, 0);
}

// A batch in which every second text ends within the first 5 % of the tokens, and the same batch in which no text ends. A batch of half the
// size shows what would remain if all of these texts had ended at once: reading the weights costs the same for every batch size.
void bench_half_ended() {
  constexpr size_t kBatch = 32;
  constexpr int64_t kTokens = 128, kFirstTokens = 6;
  Generator generate(make_causal_model(/*layers=*/4, /*width=*/512, /*heads=*/8, /*vocabulary=*/8192));
  auto run = [&](size_t batch, bool half_end) {
    Prompts prompts;
    for (size_t i = 0; i < batch; ++i) prompts.emplace_back(16, static_cast<int64_t>(3 + i));
    std::vector<int64_t> counts(batch);
    generate(prompts, tokens_of(kTokens), [&](size_t row, int64_t) { return ++counts[row] < kFirstTokens || !half_end || row % 2 == 0; });
    for (size_t row = 0; row < batch; ++row)
      TORCH_CHECK(counts[row] == (half_end && row % 2 == 1 ? kFirstTokens : kTokens), "a text has an unexpected length");
  };
  auto seconds = side_by_side({[&] { run(kBatch, false); }, [&] { run(kBatch, true); }, [&] { run(kBatch / 2, false); }}, 7, 1);
  report("generator half ended", seconds[1] / seconds[0], "x no text ends", seconds[0], seconds[1]);
  report("generator half batch", seconds[2] / seconds[0], "x the whole batch", seconds[0], seconds[2]);
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
  if (part.empty() || part == "generate") bench_batch_sizes(), bench_half_ended();
  if (part == "serve") serve_lengths(layers);
}
