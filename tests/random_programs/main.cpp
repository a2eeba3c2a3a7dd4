// random_programs: runs random tensor programs eagerly and through tenon::compile, and compares the results bitwise.
//
//   --seconds N    stop after N seconds          --count N   stop after N programs
//   --seed S       the first seed                --one S     run only this seed and print its program
//   --backend B    eager, aot_eager, aten or native, optionally followed by :pure (default: two configurations per seed, and all
//                  of them with --one)
//   --failures N   stop after N wrong programs   --quick     do not minimise
//   --why          print why no graph served a program
//   --sizes        change one or two sizes of each program in each of eight calls
//   --guard        put every tensor between inaccessible pages (with TENON_SKIP_PASS=arena also those of kernels)
//   --threads N    count of threads for ATen and for kernels (with TENON_GRAIN=1 all kernels use them)
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

#include "random_programs/check.h"
#include "random_programs/minimise.h"
#include "support/guard_allocator.h"
#include "support/program.h"
#include "support/quiet.h"

namespace tenon::random_programs {
namespace {

struct Flags {
  double seconds = 60;
  uint64_t count = UINT64_MAX, seed = 1, failures = 20;
  bool one = false, why = false, quick = false, guard = false, sizes = false;
  int threads = 1;
  std::vector<std::string> configurations;

  std::vector<std::string> configurations_for(uint64_t seed) const {
    if (!configurations.empty()) return configurations;
    static const std::vector<std::string> backends = test::graph_backends();
    std::vector<std::string> all;
    for (std::string trust : {"", ":pure"})
      for (const std::string& backend : backends) all.push_back(backend + trust);
    if (one) return all;
    // Two configurations: one checked, one pure.
    return {all[seed % backends.size()], all[backends.size() + seed / backends.size() % backends.size()]};
  }
};

struct Totals {
  uint64_t programs = 0, served = 0, wrong = 0, unstable = 0;
  struct Reason {
    uint64_t count = 0, example = 0;
    std::map<const Op*, uint64_t> ops;  // Ops of the programs that no graph served for this reason.
  };
  std::map<std::string, Reason> obstacles;
  std::map<const Op*, uint64_t> ops;
};

volatile uint64_t g_seed = 0;

void on_signal(int signal) {
  char text[96];
  int length = std::snprintf(text, sizeof text, "signal %d in seed %llu\n", signal, static_cast<unsigned long long>(g_seed));
  (void)!write(2, text, static_cast<size_t>(length));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
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
    else if (flag == "--backend") flags.configurations = {value()};
    else if (flag == "--failures") flags.failures = std::strtoull(value(), nullptr, 10);
    else if (flag == "--why") flags.why = true;
    else if (flag == "--quick") flags.quick = true;
    else if (flag == "--guard") flags.guard = true;
    else if (flag == "--sizes") flags.sizes = true;
    else if (flag == "--threads") flags.threads = std::atoi(value());
    else throw std::invalid_argument("unknown flag " + flag);
  }
  return flags;
}

void report(const RandomProgram& program, const Verdict& verdict, const std::string& configuration, bool quick) {
  std::cout << "WRONG: seed " << program.seed << ", " << verdict.difference << std::endl;
  RandomProgram smallest = program;
  Verdict last = verdict;
  if (!quick)
    smallest = minimise(program, [&](const RandomProgram& candidate) {
      Verdict v = check(candidate, configuration);
      if (!v.wrong() || v.kind != verdict.kind) return false;
      last = std::move(v);
      return true;
    });
  std::cout << smallest.text() << "  -> " << last.difference << "\n" << last.explanation << std::endl;
}

void run_seed(uint64_t seed, const Flags& flags, Totals& totals) {
  g_seed = seed;
  RandomProgram program = generate(seed, flags.sizes);
  if (flags.one) std::cerr << program.text();
  for (const Step& step : program.steps) totals.ops[step.op] += flags.configurations_for(seed).size();
  ++totals.programs;
  bool served = true, wrong = false;
  for (const std::string& configuration : flags.configurations_for(seed)) {
    Verdict verdict = check(program, configuration);
    served &= verdict.served;
    if (!verdict.served && verdict.obstacles.empty()) verdict.obstacles.push_back(verdict.wrong() ? "(wrong result)" : "(no reason given)");
    if (!verdict.served)
      for (const std::string& text : verdict.obstacles) {
        Totals::Reason& reason = totals.obstacles[text];
        if (reason.count++ == 0) reason.example = seed;
        for (const Step& step : program.steps) ++reason.ops[step.op];
      }
    if (verdict.unstable) {
      ++totals.unstable;
      std::cout << "eager runs differ from each other, seed " << seed << ": " << verdict.difference << std::endl;
    }
    if (verdict.wrong() && !wrong) {
      wrong = true;
      report(program, verdict, configuration, flags.quick);
    }
    if (flags.one && !verdict.served)
      for (const std::string& text : verdict.obstacles) std::cerr << configuration << " not served: " << text << "\n";
  }
  totals.served += served;
  totals.wrong += wrong;
}

// Returns the ops that mostly occur together with the reason.
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
  std::cout << totals.ops.size() << " ops used, " << static_cast<double>(totals.programs) / seconds() << " programs per second, "
            << totals.unstable << " unstable in eager\n";
  std::cout << totals.programs << " programs, " << totals.served << " served by a graph, " << totals.wrong << " wrong, first seed "
            << flags.seed << std::endl;
  return totals.wrong > 0;
}

}  // namespace
}  // namespace tenon::random_programs

int main(int argc, char** argv) {
  setenv("TENON_CHECK_TEXT", "1", 1);
  setenv("TENON_INTERNAL_ERRORS", "raise", 1);  // A graph that cannot be built fails the test.
  setenv("TENON_CHECK_KERNELS", "1", 1);
  tenon::test::silence_warnings();
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, tenon::random_programs::on_signal);
  try {
    return tenon::random_programs::run(tenon::random_programs::parse(argc, argv));
  } catch (const std::invalid_argument& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
