// bench_decode DIRECTORY [f32|bf16] [TOKENS] [PROMPT]: tokens a second of greedy decoding, batch 1, beside what reading the weights
// takes at this footprint and thread count.
#include <tenon/generate.h>
#include <tenon/inspect.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "bridge/parallel.h"
#include "timing.h"

using namespace tenon;

namespace {

using Words = long long __attribute__((vector_size(64), aligned(8), may_alias));

__attribute__((target_clones("avx512f", "avx2", "default"))) long long sum_of(const char* from, size_t bytes) {
  Words sums[4] = {};
  const auto* words = reinterpret_cast<const Words*>(from);
  for (size_t i = 0; i + 4 <= bytes / sizeof(Words); i += 4)
    for (size_t j = 0; j < 4; ++j) sums[j] += words[i + j];
  Words all = sums[0] + sums[1] + sums[2] + sums[3];
  long long total = 0;
  for (size_t j = 0; j < 8; ++j) total += all[j];
  return total;
}

// Seconds to read all bytes of the tensors once, on all threads: the best of three, since other load only ever adds.
double read_seconds(const std::vector<at::Tensor>& tensors) {
  static std::atomic<long long> sink;
  double least = 1e9;
  for (int round = 0; round < 3; ++round)
    least = std::min(least, seconds_of([&] {
                       for (const at::Tensor& t : tensors) {
                         const char* bytes = static_cast<const char*>(t.const_data_ptr());
                         bridge::parallel_for(0, static_cast<int64_t>(t.nbytes() >> 12), 64, [&](int64_t begin, int64_t end) {
                           sink += sum_of(bytes + (begin << 12), static_cast<size_t>(end - begin) << 12);
                         });
                       }
                     }));
  return least;
}

}  // namespace

int main(int count, char** arguments) {
  std::string directory = arguments[1], type = count > 2 ? arguments[2] : "f32";
  int64_t tokens = count > 3 ? std::atoll(arguments[3]) : 64;
  int64_t prompt_length = count > 4 ? std::atoll(arguments[4]) : 16;
  auto model = load_causal_model(directory, type == "bf16" ? at::kBFloat16 : at::kFloat);
  // The embedding is looked up, not read: all others are read once a token.
  std::vector<at::Tensor> weights;
  size_t bytes = 0;
  for (const NamedTensor& item : model->named_parameters())
    if (item.key().find("embed") == std::string::npos && item.key().find("wte") == std::string::npos) {
      weights.push_back(item.value());
      bytes += item.value().nbytes();
    }
  Generator generate(model);
  std::vector<int64_t> prompt(static_cast<size_t>(prompt_length), 5);
  for (int i = 0; i < 3; ++i) generate({prompt}, {.max_new_tokens = 4, .stop = std::vector<int64_t>()});
  std::vector<double> rates, reads, firsts;
  for (int round = 0; round < 5; ++round) {
    double reading = read_seconds(weights);
    double first = seconds_of([&] { generate({prompt}, {.max_new_tokens = 1, .stop = std::vector<int64_t>()}); });
    double all = seconds_of([&] { generate({prompt}, {.max_new_tokens = tokens + 1, .stop = std::vector<int64_t>()}); });
    rates.push_back(static_cast<double>(tokens) / (all - first));
    reads.push_back(reading);
    firsts.push_back(first);
  }
  double rate = bench::median(rates), read = bench::median(reads);
  std::printf(
      "{\"tokens_per_second\": %.2f, \"of_bandwidth\": %.3f, \"gb_per_second\": %.2f, \"weights_mb\": %.1f, \"prefill_ms\": %.2f}\n", rate,
      rate * read, static_cast<double>(bytes) / read / 1e9, static_cast<double>(bytes) / 1e6, bench::median(firsts) * 1e3);
  if (std::getenv("TENON_BENCH_EXPLAIN"))
    std::fprintf(stderr, "%s\n%s\n", detail::explain(*generate.prefill()).text().c_str(),
                 detail::explain(*generate.decode()).text().c_str());
}
