// bench_decode DIRECTORY [f32|bf16] [TOKENS] [PROMPT]: tokens a second of greedy decoding, batch 1, beside what reading the weights
// takes at this footprint and thread count.
#include <ATen/Parallel.h>
#include <tenon/generate.h>
#include <tenon/inspect.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "timing.h"

using namespace tenon;

namespace {

// Seconds to read all bytes of the tensors once, on all threads.
double read_seconds(const std::vector<at::Tensor>& tensors) {
  return bench::wall_of([&] {
    for (const at::Tensor& t : tensors) {
      const auto* words = static_cast<const uint64_t*>(t.const_data_ptr());
      int64_t count = static_cast<int64_t>(t.nbytes() / 8), threads = at::get_num_threads();
      std::vector<uint64_t> sums(static_cast<size_t>(threads) * 8);
      at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          uint64_t a = 0, b = 0, c = 0, d = 0;
          for (int64_t i = count * k / threads; i + 32 <= count * (k + 1) / threads; i += 32)
            for (int64_t j = i; j < i + 32; j += 4) a += words[j], b += words[j + 1], c += words[j + 2], d += words[j + 3];
          sums[static_cast<size_t>(k) * 8] = a + b + c + d;
        }
      });
      volatile uint64_t sink = sums[0];
      (void)sink;
    }
  });
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
    double first = bench::wall_of([&] { generate({prompt}, {.max_new_tokens = 1, .stop = std::vector<int64_t>()}); });
    double all = bench::wall_of([&] { generate({prompt}, {.max_new_tokens = tokens + 1, .stop = std::vector<int64_t>()}); });
    rates.push_back(static_cast<double>(tokens) / (all - first));
    reads.push_back(reading);
    firsts.push_back(first);
  }
  double rate = bench::median(rates), read = bench::median(reads);
  std::printf("{\"tokens_per_second\": %.2f, \"of_bandwidth\": %.3f, \"gb_per_second\": %.2f, \"weights_mb\": %.1f, \"prefill_ms\": %.2f}\n", rate,
              rate * read, static_cast<double>(bytes) / read / 1e9, static_cast<double>(bytes) / 1e6, bench::median(firsts) * 1e3);
  if (std::getenv("TENON_BENCH_EXPLAIN"))
    std::fprintf(stderr, "%s\n%s\n", detail::explain(*generate.prefill()).text().c_str(), detail::explain(*generate.decode()).text().c_str());
}
