// Prefill and decoding with adapters: bench_adapters BASE ADAPTERS ROWS TOKENS STEPS ROUNDS CASE=NAME,NAME,... ...
// ADAPTERS contains one PEFT directory per name. A case is a list of adapters that are assigned to batch rows round-robin; case "bare"
// has no bank. Cases alternate within a round. Prints one JSON line per case: median milliseconds of a prefill and of a decoding step.
#include <tenon/adapters.h>
#include <tenon/control.h>
#include <tenon/generate.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "bench/timing.h"

using namespace tenon;

namespace {

struct Case {
  std::string name;
  std::vector<std::string> adapters;
  std::vector<double> prefill, decode;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// Times one case: the time to the first token, and the decoding steps after it.
void measure(Generator& generate, const std::vector<std::vector<int64_t>>& prompts, int64_t steps, const std::optional<Rows>& rows,
             Case* to) {
  double prefill = 0;
  auto start = std::chrono::steady_clock::now();
  auto since = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  generate(prompts, {.max_new_tokens = 1 + steps, .stop = std::vector<int64_t>(), .rows = rows}, [&](size_t, int64_t) {
    if (prefill == 0) prefill = since();
    return true;
  });
  if (!to) return;
  to->prefill.push_back(prefill * 1e3);
  if (steps > 0) to->decode.push_back((since() - prefill) / static_cast<double>(steps) * 1e3);
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 8) return std::fprintf(stderr, "bench_adapters BASE ADAPTERS ROWS TOKENS STEPS ROUNDS CASE=NAME,NAME ...\n"), 2;
  int64_t rows = std::atol(arguments[3]), tokens = std::atol(arguments[4]), steps = std::atol(arguments[5]);
  int rounds = std::atoi(arguments[6]);
  std::vector<Case> cases;
  std::set<std::string> names;
  for (int i = 7; i < count; ++i) {
    std::string text = arguments[i];
    size_t is = text.find('=');
    cases.push_back({text.substr(0, is), is == std::string::npos ? std::vector<std::string>() : split(text.substr(is + 1))});
    names.insert(cases.back().adapters.begin(), cases.back().adapters.end());
  }
  auto bare_model = load_causal_model(arguments[1]), model = load_causal_model(arguments[1]);
  Bank bank(model);
  for (const std::string& name : names)
    if (name != kBase) bank.load(name, std::string(arguments[2]) + "/" + name);
  Generator bare(bare_model), generate(model);
  std::vector<std::vector<int64_t>> prompts;
  for (int64_t i = 0; i < rows; ++i) {
    prompts.emplace_back();
    for (int64_t k = 0; k < tokens; ++k) prompts.back().push_back(3 + (i * 7919 + k * 104729) % 31000);
  }
  auto rows_of = [&](const Case& c) -> std::optional<Rows> {
    if (c.adapters.empty()) return std::nullopt;
    std::vector<std::string> all;
    for (int64_t i = 0; i < rows; ++i) all.push_back(c.adapters[static_cast<size_t>(i) % c.adapters.size()]);
    return bank.rows(all);
  };
  auto by = [&](const Case& c) -> Generator& { return c.adapters.empty() ? bare : generate; };
  for (int i = 0; i < 3; ++i)
    for (Case& c : cases) measure(by(c), prompts, steps, rows_of(c), nullptr);
  size_t graphs = stats().graphs;
  for (int i = 0; i < rounds; ++i)
    for (size_t k = 0; k < cases.size(); ++k) {
      Case& c = cases[(k + static_cast<size_t>(i)) % cases.size()];
      measure(by(c), prompts, steps, rows_of(c), &c);
    }
  for (const Case& c : cases)
    std::printf("{\"case\": \"%s\", \"prefill_ms\": %.3f, \"decode_ms\": %.3f, \"graphs\": %zu}\n", c.name.c_str(),
                bench::median(c.prefill), c.decode.empty() ? 0.0 : bench::median(c.decode), stats().graphs - graphs);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
