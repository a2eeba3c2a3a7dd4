// Whole models compared with eager, on all cores: compile time, inference and training speed, memory.
// `bench_models compile|memory|modes|train` runs one benchmark.
#include <tenon/compile.h>
#include <tenon/control.h>
#include <tenon/inspect.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <regex>
#include <string>

#include "base/clock.h"
#include "bench/counting_allocator.h"
#include "bench/models/bert.h"
#include "bench/models/gpt2.h"
#include "bench/models/llama.h"
#include "bench/models/resnet.h"
#include "bench/timing.h"

using namespace tenon;
using namespace tenon::bench;

namespace {

// Wall times of alternating runs, because other processes disturb the timing.
std::pair<double, double> medians(const std::function<void()>& eager, const std::function<void()>& ours, int rounds) {
  std::vector<double> a, b;
  for (int i = 0; i < rounds; ++i) {
    a.push_back(seconds_of(eager));
    b.push_back(seconds_of(ours));
  }
  return {median(a), median(b)};
}

Tensor random_ids(int64_t batch, int64_t vocabulary) { return torch::randint(3, vocabulary, {batch, 128}); }

// Time of the passes, the planner and code generation.
double compile_work(const Explanation& why) {
  double seconds = 0;
  for (const auto& [phase, spent] : why.phases) seconds += phase == "record" ? 0 : spent;
  return seconds;
}

// Time of the first calls of a new compiled function minus that of eager calls: recording, passes, code generation.
template <class Model>
double bench_compile(const std::string& name, Model model, const Tensor& ids) {
  constexpr int kFirst = 4, kTimes = 5;
  torch::NoGradGuard no_grad;
  model->eval();
  auto forward = [&](const Tensor& in) { return model->forward(in); };
  forward(ids);
  std::vector<double> above, eager, work;
  for (int k = 0; k < kTimes; ++k) {
    auto compiled = compile(forward);
    double first = 0, plain = 0;
    for (int i = 0; i < kFirst; ++i) {
      plain += seconds_of([&] { forward(ids); });
      first += seconds_of([&] { compiled(ids); });
    }
    above.push_back(first - plain);
    eager.push_back(plain / kFirst);
    work.push_back(compile_work(explain(compiled)));
  }
  report(("compile " + name).c_str(), std::max(median(above), median(work)), "s", median(eager), median(eager) * kFirst + median(above));
  auto compiled = compile(forward);
  for (int i = 0; i < kFirst; ++i) compiled(ids);
  auto [theirs, ours] = medians([&] { forward(ids); }, [&] { compiled(ids); }, 7);
  report(("infer " + name).c_str(), ours / theirs, "x eager", theirs, ours);
  if (std::getenv("TENON_BENCH_EXPLAIN")) std::fprintf(stderr, "%s\n", explain(compiled).text().c_str());
  return median(work);
}

void report_growth(const char* name, double at_12, double at_48) { report(name, at_48 / at_12, "x 12 layers", at_12, at_48); }

// Counts ops that run in ATen, except those that are meant to (GEMM, attention, convolution).
void report_left(const std::string& name, const Explanation& why) {
  const std::regex calls("aten::(mm|addmm|bmm|baddbmm|convolution|convolution_backward|_scaled_dot_product.*)");
  size_t left = 0;
  for (const auto& graph : why.graphs)
    for (const auto& call : graph.aten_calls) {
      if (std::regex_match(call.op, calls)) continue;
      left += call.count;
      std::fprintf(stderr, "%s: %zu x %s runs in ATen\n", name.c_str(), static_cast<size_t>(call.count), call.op.c_str());
    }
  report(("left " + name).c_str(), static_cast<double>(left), "ops", 0, 0);
}

// Peak memory of a call: all allocations while it runs, including results, plus the arena.
template <class Model>
void bench_memory(const std::string& name, Model model, const Tensor& input) {
  torch::NoGradGuard no_grad;
  model->eval();
  auto forward = [&](const Tensor& in) { return model->forward(in); };
  auto compiled = compile(forward);
  for (int i = 0; i < 4; ++i) compiled(input);
  CountingAllocator& counting = CountingAllocator::instance();
  size_t eager = counting.peak_of([&] { forward(input); }), ours = counting.peak_of([&] { compiled(input); }), arena = 0;
  for (const auto& graph : explain(compiled).graphs) arena = std::max(arena, graph.arena_bytes);
  auto bytes = [](size_t n) { return static_cast<double>(n) * 1e-6; };
  report(("memory " + name).c_str(), bytes(ours + arena) / bytes(eager), "x eager", bytes(eager), bytes(ours + arena));
  report_left(name, explain(compiled));
  if (std::getenv("TENON_BENCH_EXPLAIN")) std::fprintf(stderr, "arena: %zu bytes\n%s\n", arena, explain(compiled).text().c_str());
}

// Memory of packs, and tuning time of max_autotune.
void bench_modes() {
  torch::NoGradGuard no_grad;
  Bert model((BertSizes()));
  model->eval();
  double weights = 0;
  for (const Tensor& p : model->parameters()) weights += static_cast<double>(p.nbytes());
  Tensor ids = random_ids(1, 30522);
  auto standard = compile(model);
  double usual = 0, first = 0;
  for (int i = 0; i < 4; ++i) usual = seconds_of([&] { standard(ids); });
  report("packs bert", static_cast<double>(stats().pack_bytes) / weights, "x weights", 0, 0);
  Options options;
  options.mode = Mode::max_autotune;
  auto tuned = compile(model, options);
  for (int i = 0; i < 4; ++i) first = std::max(first, seconds_of([&] { tuned(ids); }));
  report("max_autotune bert", first, "s", usual, first);
  if (std::getenv("TENON_BENCH_EXPLAIN")) std::fprintf(stderr, "%s\n", explain(tuned).text().c_str());
}

// One step of a training loop: forward, backward, AdamW.
struct Trainer {
  Llama model;
  std::vector<Tensor> trained;
  std::unique_ptr<torch::optim::AdamW> optimizer;

  Trainer(const LlamaSizes& sizes, torch::ScalarType dtype) : model(nullptr) {
    torch::manual_seed(0);
    model = Llama(sizes);
    model->to(dtype);
    for (Tensor& p : model->parameters())
      if (p.requires_grad()) trained.push_back(p);
    optimizer = std::make_unique<torch::optim::AdamW>(trained, torch::optim::AdamWOptions(1e-3));
  }
  Tensor step(const Tensor& ids) {
    optimizer->zero_grad();
    Tensor loss = model->loss(ids);
    loss.backward();
    optimizer->step();
    return loss.detach();
  }
};

void bench_training(const char* name, torch::ScalarType dtype) {
  LlamaSizes sizes{.lora_rank = 8};
  Tensor ids = random_ids(4, sizes.vocabulary);
  Trainer theirs(sizes, dtype), ours(sizes, dtype);
  auto compiled = compile([&](const Tensor& in) { return ours.step(in); });
  for (int i = 0; i < 4; ++i) {
    double a = theirs.step(ids).item<double>(), b = compiled(ids).item<double>();
    std::fprintf(stderr, "loss %.6f (eager %.6f)\n", b, a);
  }
  auto [eager, mine] = medians([&] { theirs.step(ids); }, [&] { compiled(ids); }, 5);
  report(name, mine / eager, "x eager", eager, mine);
  report_left(name, explain(compiled));
  if (std::getenv("TENON_BENCH_EXPLAIN")) std::fprintf(stderr, "%s\n", explain(compiled).text().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::string part = argc > 1 ? argv[1] : "";
  torch::manual_seed(0);
  if (part.empty() || part == "compile") {
    auto llama = [](int64_t layers) {
      return bench_compile("llama " + std::to_string(layers), Llama(LlamaSizes{.layers = layers}), random_ids(1, 32000));
    };
    auto bert = [](int64_t layers) {
      return bench_compile("bert " + std::to_string(layers), Bert(BertSizes{.layers = layers}), random_ids(1, 30522));
    };
    double llama_12 = llama(12), bert_12 = bert(12);
    report_growth("compile work llama 48", llama_12, llama(48));
    report_growth("compile work bert 48", bert_12, bert(48));
  }
  if (part.empty() || part == "memory") {
    CountingAllocator::install();
    bench_memory("llama", Llama(LlamaSizes{.layers = 3}), random_ids(1, 32000));
    bench_memory("bert", Bert(BertSizes{.layers = 3}), random_ids(1, 30522));
    bench_memory("gpt2", Gpt2(Gpt2Sizes{.layers = 3}), random_ids(1, 50257));
    bench_memory("vit", Vit(BertSizes{.layers = 3}), torch::randn({1, 3, 224, 224}));
    bench_memory("resnet50", ResNet50(), torch::randn({1, 3, 224, 224}));
  }
  if (part.empty() || part == "modes") bench_modes();
  if (part.empty() || part == "train") {
    bench_training("train llama lora f32", torch::kFloat);
    bench_training("train llama lora bf16", torch::kBFloat16);
  }
}
