// random_programs: random tensor programs, eagerly and through tenon::compile, bit for bit.
//
//   --seconds N    stop after N seconds          --count N   stop after N programs
//   --seed S       the first seed                --one S     only this seed, with its program printed
//   --way W        eager, aot_eager, aten or native, with :pure or without; by default two of them, by seed, and all for --one
//   --failures N   stop after N wrong programs   --quick     do not minimise
//   --why          why programs were not answered by a graph
//   --guard        every tensor between pages that nobody may touch (R28; with TENON_SKIP_PASS=arena those of kernels too)
//   --threads N    for ATen and for kernels (with TENON_GRAIN=1 all of them)
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>

#include "fuzz/check.h"
#include "fuzz/minimise.h"
#include "support/guard_allocator.h"
#include "support/program.h"
#include "support/quiet.h"

namespace tenon::fuzz {
namespace {

struct Flags {
  double seconds = 60;
  uint64_t count = UINT64_MAX, seed = 1, failures = 20;
  bool one = false, why = false, quick = false, guard = false;
  int threads = 1;
  std::vector<std::string> ways;

  std::vector<std::string> ways_for(uint64_t seed) const {
    if (!ways.empty()) return ways;
    static const std::vector<std::string> backends = test::graph_backends();
    std::vector<std::string> all;
    for (std::string trust : {"", ":pure"})
      for (const std::string& backend : backends) all.push_back(backend + trust);
    if (one) return all;
    // Two of them: one checked, one pure.
    return {all[seed % backends.size()], all[backends.size() + seed / backends.size() % backends.size()]};
  }
};

struct Totals {
  uint64_t programs = 0, answered = 0, wrong = 0, unstable = 0;
  struct Reason {
    uint64_t count = 0, example = 0;
    std::map<const Op*, uint64_t> ops;  // of the programs that it held back
  };
  std::map<std::string, Reason> obstacles;
  std::map<const Op*, uint64_t> ops;
};

volatile uint64_t g_seed = 0;

void on_signal(int number) {
  char text[96];
  int length = std::snprintf(text, sizeof text, "signal %d in seed %llu\n", number, static_cast<unsigned long long>(g_seed));
  (void)!write(2, text, static_cast<size_t>(length));
  std::signal(number, SIG_DFL);
  std::raise(number);
}

Flags parse(int argc, char** argv) {
  Flags flags;
  if (const char* seed = std::getenv("TENON_SEED")) flags.seed = std::strtoull(seed, nullptr, 10);
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    auto value = [&] { return i + 1 < argc ? argv[++i] : throw std::invalid_argument(flag + " needs a value"); };
    if (flag == "--seconds") flags.seconds = std::atof(value());
    else if (flag == "--count") flags.count = std::strtoull(value(), nullptr, 10), flags.seconds = 1e9;
    else if (flag == "--seed") flags.seed = std::strtoull(value(), nullptr, 10);
    else if (flag == "--one") flags.one = true, flags.seed = std::strtoull(value(), nullptr, 10), flags.count = 1;
    else if (flag == "--way") flags.ways = {value()};
    else if (flag == "--failures") flags.failures = std::strtoull(value(), nullptr, 10);
    else if (flag == "--why") flags.why = true;
    else if (flag == "--quick") flags.quick = true;
    else if (flag == "--guard") flags.guard = true;
    else if (flag == "--threads") flags.threads = std::atoi(value());
    else throw std::invalid_argument("unknown flag " + flag);
  }
  return flags;
}

void report(const RandomProgram& program, const Verdict& verdict, const std::string& way, bool quick) {
  std::cout << "WRONG: seed " << program.seed << ", " << verdict.difference << std::endl;
  RandomProgram smallest = program;
  Verdict last = verdict;
  if (!quick)
    smallest = minimise(program, [&](const RandomProgram& candidate) {
      Verdict v = check(candidate, way);
      if (!v.wrong() || v.kind != verdict.kind) return false;
      last = std::move(v);
      return true;
    });
  std::cout << smallest.text() << "  -> " << last.difference << "\n" << last.explanation << std::endl;
}

void run_seed(uint64_t seed, const Flags& flags, Totals& totals) {
  g_seed = seed;
  RandomProgram program = generate(seed);
  if (flags.one) std::cerr << program.text();
  for (const Step& step : program.steps) totals.ops[step.op] += flags.ways_for(seed).size();
  ++totals.programs;
  bool answered = true, wrong = false;
  for (const std::string& way : flags.ways_for(seed)) {
    Verdict verdict = check(program, way);
    answered &= verdict.answered;
    if (!verdict.answered && verdict.obstacles.empty()) verdict.obstacles.push_back(verdict.wrong() ? "(wrong before)" : "(nothing said)");
    if (!verdict.answered)
      for (const std::string& text : verdict.obstacles) {
        Totals::Reason& reason = totals.obstacles[text];
        if (reason.count++ == 0) reason.example = seed;
        for (const Step& step : program.steps) ++reason.ops[step.op];
      }
    if (verdict.unstable) {
      ++totals.unstable;
      std::cout << "eager does not agree with itself, seed " << seed << ": " << verdict.difference << std::endl;
    }
    if (verdict.wrong() && !wrong) {
      wrong = true;
      report(program, verdict, way, flags.quick);
    }
    if (flags.one && !verdict.answered)
      for (const std::string& text : verdict.obstacles) std::cerr << way << " not answered: " << text << "\n";
  }
  totals.answered += answered;
  totals.wrong += wrong;
}

// The ops whose every use, nearly, goes with the reason.
std::string suspects(const Totals::Reason& reason, const Totals& totals) {
  std::vector<std::pair<double, const Op*>> shares;
  for (auto [op, count] : reason.ops)
    if (count > 2) shares.emplace_back(static_cast<double>(count) / static_cast<double>(totals.ops.at(op)), op);
  std::sort(shares.rbegin(), shares.rend());
  std::string out;
  for (size_t i = 0; i < shares.size() && i < 4 && shares[i].first > 0.2; ++i)
    out += std::string(out.empty() ? " (" : ", ") + shares[i].second->name;
  return out.empty() ? out : out + ")";
}

void print_reasons(const Totals& totals) {
  std::vector<std::pair<std::string, Totals::Reason>> sorted(totals.obstacles.begin(), totals.obstacles.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  for (size_t i = 0; i < sorted.size() && i < 40; ++i)
    std::cout << "  " << sorted[i].second.count << " x " << sorted[i].first << suspects(sorted[i].second, totals) << ", as in seed "
              << sorted[i].second.example << "\n";
}

int run(const Flags& flags) {
  at::set_num_threads(flags.threads);
  if (flags.guard) c10::SetCPUAllocator(new test::GuardAllocator, 100);
  std::cout << "first seed " << flags.seed << ", " << all_ops().size() << " ops" << std::endl;
  Totals totals;
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  for (uint64_t i = 0; i < flags.count && totals.wrong < flags.failures && (flags.one || seconds() < flags.seconds); ++i)
    run_seed(flags.seed + i, flags, totals);
  if (flags.why) print_reasons(totals);
  std::cout << totals.ops.size() << " ops used, " << static_cast<double>(totals.programs) / seconds() << " programs a second, "
            << totals.unstable << " where eager is not stable\n";
  std::cout << totals.programs << " programs, " << totals.answered << " answered by a graph, " << totals.wrong << " wrong, first seed "
            << flags.seed << std::endl;
  return totals.wrong > 0;
}

}  // namespace
}  // namespace tenon::fuzz

int main(int argc, char** argv) {
  setenv("TENON_CHECK_TEXT", "1", 1);
  setenv("TENON_INTERNAL_ERRORS", "raise", 1);  // a graph that cannot be built fails the test
  setenv("TENON_CHECK_KERNELS", "1", 1);
  tenon::test::silence_warnings();
  for (int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(number, tenon::fuzz::on_signal);
  try {
    return tenon::fuzz::run(tenon::fuzz::parse(argc, argv));
  } catch (const std::invalid_argument& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
