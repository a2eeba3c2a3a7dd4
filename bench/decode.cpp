// bench_decode DIRECTORY f32|bf16 MEASUREMENT: prints one line of JSON. Measurements:
//   decode [TOKENS] [PROMPT]   tokens per second at batch 1, relative to reading the weights once per token at memory bandwidth
//   prefill [TOKENS]           time of a prompt / time of its products and attention alone
//   load                       time to load all weights / time to read their files; from the disk and from the page cache
//   first [PROMPT]             time from the start of the process to the first token; resident memory after 64 tokens
#include <fcntl.h>
#include <tenon/generate.h>
#include <tenon/inspect.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "base/clones.h"
#include "bench/bare.h"
#include "bench/timing.h"
#include "bridge/parallel.h"
#include "ir/graph/parse.h"

using namespace tenon;

namespace {

using Words = long long __attribute__((vector_size(64), aligned(8), may_alias));

TENON_CLONES("avx512f", "avx2", "default") long long sum_of(const char* from, size_t bytes) {
  Words sums[4] = {};
  const auto* words = reinterpret_cast<const Words*>(from);
  for (size_t i = 0; i + 4 <= bytes / sizeof(Words); i += 4)
    for (size_t j = 0; j < 4; ++j) sums[j] += words[i + j];
  Words all = sums[0] + sums[1] + sums[2] + sums[3];
  long long total = 0;
  for (size_t j = 0; j < 8; ++j) total += all[j];
  return total;
}

// Reads all bytes once, on all threads.
void read_all(const std::vector<at::Tensor>& tensors) {
  static std::atomic<long long> sink;
  for (const at::Tensor& t : tensors) {
    const char* bytes = static_cast<const char*>(t.const_data_ptr());
    bridge::parallel_for(0, static_cast<int64_t>(t.nbytes() >> 12), 64, [&](int64_t begin, int64_t end) {
      sink += sum_of(bytes + (begin << 12), static_cast<size_t>(end - begin) << 12);
    });
  }
}

// The minimum of three runs, because other processes can only add time.
double read_seconds(const std::vector<at::Tensor>& tensors) {
  double least = 1e9;
  for (int round = 0; round < 3; ++round) least = std::min(least, seconds_of([&] { read_all(tensors); }));
  return least;
}

struct Request {
  std::string directory;
  at::ScalarType type;
  std::vector<int64_t> counts;
  int64_t count(size_t i, int64_t otherwise) const { return i < counts.size() ? counts[i] : otherwise; }
};

std::vector<int64_t> prompt_of(int64_t length) { return std::vector<int64_t>(static_cast<size_t>(length), 5); }
GenerateOptions tokens_of(int64_t count) { return {.max_new_tokens = count, .stop = std::vector<int64_t>()}; }

void decode(const Request& request) {
  int64_t tokens = request.count(0, 64);
  auto model = load_causal_model(request.directory, request.type);
  // A token reads every weight once, except the embedding, of which it reads one row.
  std::vector<at::Tensor> weights;
  size_t bytes = 0;
  for (const NamedTensor& item : model->named_parameters())
    if (item.key().find("embed") == std::string::npos && item.key().find("wte") == std::string::npos) {
      weights.push_back(item.value());
      bytes += item.value().nbytes();
    }
  Generator generate(model);
  auto prompt = prompt_of(request.count(1, 16));
  for (int i = 0; i < 3; ++i) generate({prompt}, tokens_of(4));
  std::vector<double> rates, reads;
  for (int round = 0; round < 5; ++round) {
    reads.push_back(read_seconds(weights));
    double first = seconds_of([&] { generate({prompt}, tokens_of(1)); });
    double all = seconds_of([&] { generate({prompt}, tokens_of(tokens + 1)); });
    rates.push_back(static_cast<double>(tokens) / (all - first));
  }
  double rate = bench::median(rates), read = bench::median(reads);
  std::printf("{\"tokens_per_second\": %.2f, \"of_bandwidth\": %.3f, \"gb_per_second\": %.2f, \"weights_mb\": %.1f}\n", rate, rate * read,
              static_cast<double>(bytes) / read / 1e9, static_cast<double>(bytes) / 1e6);
  if (std::getenv("TENON_BENCH_EXPLAIN"))
    std::fprintf(stderr, "%s\n%s\n", tenon::explain(*generate.prefill()).text().c_str(), tenon::explain(*generate.decode()).text().c_str());
}

// The graph that the compiler receives for a prompt.
ir::Graph prompt_graph(const std::shared_ptr<CausalModel>& model, const std::vector<int64_t>& prompt) {
  std::string text;
  register_backend("listing", [&](const std::string& graph, Runner op_by_op) {
    text = graph;
    return op_by_op;
  });
  Generator generate(model, {.backend = "listing"});
  for (int i = 0; i < 4 && text.empty(); ++i) generate({prompt}, tokens_of(1));
  return ir::parse(text);
}

void prefill(const Request& request) {
  auto model = load_causal_model(request.directory, request.type);
  auto prompt = prompt_of(request.count(0, 512));
  at::NoGradGuard no_grad;
  ir::Graph graph = prompt_graph(model, prompt);
  bench::Bare bare(graph, request.type);
  Generator generate(model);
  for (int i = 0; i < 4; ++i) generate({prompt}, tokens_of(1));
  std::vector<double> ours, alone, ratios;
  for (int round = 0; round < 7; ++round) {
    alone.push_back(seconds_of([&] { bare.run(); }));
    ours.push_back(seconds_of([&] { generate({prompt}, tokens_of(1)); }));
    ratios.push_back(ours.back() / alone.back());
  }
  std::printf("{\"ms\": %.1f, \"bare_ms\": %.1f, \"by_bare\": %.3f}\n", bench::median(ours) * 1e3, bench::median(alone) * 1e3,
              bench::median(ratios));
}

template <class F>
void for_files(const std::string& directory, F&& f) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    int file = open(entry.path().c_str(), O_RDONLY);
    f(file);
    close(file);
  }
}

void load(const Request& request) {
  std::vector<char> room(size_t{1} << 22);
  auto read_files = [&] {
    for_files(request.directory, [&](int file) {
      while (read(file, room.data(), room.size()) > 0) {
      }
    });
  };
  auto load_weights = [&] {
    auto model = load_causal_model(request.directory, request.type);
    std::vector<at::Tensor> weights;
    for (const NamedTensor& item : model->named_parameters()) weights.push_back(item.value());
    read_all(weights);
  };
  auto forget_files = [&] { for_files(request.directory, [](int file) { posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED); }); };
  std::vector<double> disk, memory, load_ms, read_ms;
  for (int round = 0; round < 3; ++round) {
    forget_files();
    double reading = seconds_of(read_files), reading_again = seconds_of(read_files);
    forget_files();
    double loading = seconds_of(load_weights), loading_again = seconds_of(load_weights);
    disk.push_back(loading / reading), memory.push_back(loading_again / reading_again);
    load_ms.push_back(loading * 1e3), read_ms.push_back(reading * 1e3);
  }
  std::printf("{\"from_disk\": %.3f, \"from_memory\": %.3f, \"load_ms\": %.0f, \"read_ms\": %.0f}\n", bench::median(disk),
              bench::median(memory), bench::median(load_ms), bench::median(read_ms));
}

double resident_bytes() {
  std::ifstream from("/proc/self/statm");
  double pages = 0, resident = 0;
  from >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void first(const Request& request) {
  double before = resident_bytes(), weights = 0, ms = 0;
  auto start = std::chrono::steady_clock::now();
  auto model = load_causal_model(request.directory, request.type);
  for (const NamedTensor& item : model->named_parameters()) weights += static_cast<double>(item.value().nbytes());
  Generator generate(model);
  auto prompt = prompt_of(request.count(0, 512));
  generate({prompt}, tokens_of(64), [&](size_t, int64_t) {
    if (ms == 0) ms = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() * 1e3;
    return true;
  });
  for (int i = 0; i < 3; ++i) generate({prompt}, tokens_of(64));
  std::printf("{\"first_token_ms\": %.0f, \"resident_mb\": %.0f, \"by_weights\": %.3f}\n", ms, resident_bytes() / 1e6,
              (resident_bytes() - before) / weights);
}

}  // namespace

int main(int count, char** arguments) {
  const std::map<std::string, void (*)(const Request&)> parts = {
      {"decode", decode}, {"prefill", prefill}, {"load", load}, {"first", first}};
  auto part = count > 3 ? parts.find(arguments[3]) : parts.end();
  if (part == parts.end()) return std::fprintf(stderr, "usage: bench_decode DIRECTORY f32|bf16 decode|prefill|load|first [COUNT...]\n"), 2;
  Request request{arguments[1], std::string(arguments[2]) == "bf16" ? at::kBFloat16 : at::kFloat, {}};
  for (int i = 4; i < count; ++i) request.counts.push_back(std::atoll(arguments[i]));
  part->second(request);
}
