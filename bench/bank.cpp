// Cost of bank operations: bench_bank BASE ADAPTER SMALL. Times switching, disabling and loading adapters. Then loads SMALL a thousand
// times and measures memory growth / size of the files, and decoding time after / before. Prints one line of JSON.
#include <ATen/core/grad_mode.h>
#include <tenon/adapters.h>
#include <tenon/generate.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "bench/timing.h"

using namespace tenon;

namespace {

template <class F>
double median_seconds(int times, F&& f) {
  std::vector<double> all;
  for (int i = 0; i < times; ++i) all.push_back(seconds_of([&] { f(i); }));
  return bench::median(std::move(all));
}

double resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) * 1024;
  return 0;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 4) return std::fprintf(stderr, "bench_bank BASE ADAPTER SMALL\n"), 2;
  at::NoGradGuard no_grad;
  auto model = load_causal_model(arguments[1]);
  Bank bank(model);
  bank.load("first", arguments[2]);
  bank.load("second", arguments[2]);
  double use = median_seconds(1001, [&](int i) { bank.use(i % 2 ? "first" : "second"); });
  double disable = median_seconds(1001, [&](int) { auto off = bank.disable(); });
  double load = median_seconds(61, [&](int) { bank.load("first", arguments[2]); });
  Generator generate(model);
  std::vector<std::vector<int64_t>> prompts(8, std::vector<int64_t>(16, 5));
  GenerateOptions options{.max_new_tokens = 16, .stop = std::vector<int64_t>()};
  auto step = [&](int) { generate(prompts, options); };
  bank.use("first");
  for (int i = 0; i < 3; ++i) step(i);
  double before = median_seconds(7, step), bytes = resident_bytes();
  constexpr int kLoads = 1000;
  for (int i = 0; i < kLoads; ++i) bank.load("small" + std::to_string(i), arguments[3]);
  double grown = resident_bytes() - bytes;
  double size = static_cast<double>(std::filesystem::file_size(std::string(arguments[3]) + "/adapter_model.safetensors"));
  double after = median_seconds(7, step);
  std::printf("{\"switch_us\": %.2f, \"disable_us\": %.2f, \"load_ms\": %.3f, \"memory_by_bytes\": %.4f, \"step_by_step\": %.4f}\n",
              use * 1e6, disable * 1e6, load * 1e3, grown / (kLoads * size), after / before);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
