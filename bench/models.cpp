// Whole models beside eager: how long a compile takes, how fast inference and training are.
#include "bench/models.h"

#include <tenon/compile.h>
#include <tenon/inspect.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "bench/timing.h"

using namespace tenon;
using namespace tenon::bench;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class F>
double time_of(F&& f) {
  double start = seconds();
  f();
  return seconds() - start;
}

template <class Model>
void bench_compile(const char* name, Model model, const Tensor& ids) {
  torch::NoGradGuard no_grad;
  model->eval();
  auto forward = [&](const Tensor& in) { return model->forward(in); };
  double eager = 1e9, first = 0, second = 0;
  for (int i = 0; i < 3; ++i) eager = std::min(eager, time_of([&] { forward(ids); }));
  auto compiled = compile(forward);
  first = time_of([&] { compiled(ids); });
  second = time_of([&] { compiled(ids); });
  std::string row = std::string("compile ") + name;
  report(row.c_str(), first + second - 2 * eager, "s", eager, first);
  std::vector<double> eager_runs, ours;
  for (int i = 0; i < 5; ++i) {
    eager_runs.push_back(time_of([&] { forward(ids); }));
    ours.push_back(time_of([&] { compiled(ids); }));
  }
  std::nth_element(eager_runs.begin(), eager_runs.begin() + 2, eager_runs.end());
  std::nth_element(ours.begin(), ours.begin() + 2, ours.end());
  row = std::string("infer ") + name;
  report(row.c_str(), ours[2] / eager_runs[2], "x eager", eager_runs[2], ours[2]);
  if (std::getenv("TENON_BENCH_EXPLAIN")) std::fprintf(stderr, "%s\n", explain(compiled).text().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::string only = argc > 1 ? argv[1] : "";
  torch::manual_seed(0);
  auto ids = [](int64_t batch, int64_t vocabulary) { return torch::randint(3, vocabulary, {batch, 128}); };
  for (int64_t layers : {12, 48}) {
    std::string depth = " " + std::to_string(layers);
    if (only.empty() || only == "llama") bench_compile(("llama" + depth).c_str(), Llama(LlamaSizes{.layers = layers}), ids(1, 32000));
    if (only.empty() || only == "bert") bench_compile(("bert" + depth).c_str(), Bert(BertSizes{.layers = layers}), ids(1, 30522));
  }
}
