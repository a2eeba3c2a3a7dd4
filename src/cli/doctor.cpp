// tenon doctor: checks whether Tenon can work on this machine and in this process, and says how to mend what is wrong.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <sched.h>
#include <sys/resource.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <tenon/version.h>
#include <torch/version.h>

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bridge/dispatch_keys.h"
#include "capture/address_space.h"
#include "cli/commands.h"
#ifdef TENON_NATIVE
#include "codegen/codegen.h"
#endif

namespace tenon::cli {
namespace {

struct Finding {
  std::string name, found;
  std::string remedy = "";  // Empty if nothing is wrong.
};

constexpr double kGigabyte = 1e9;
// Below this much memory even small models do not load. Not measured.
constexpr double kMinMemory = 0.5 * kGigabyte;

std::string gigabytes(double bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.1f GB", bytes / kGigabyte);
  return text;
}

// Returns the first line of a file that begins with `key`, without the key; the first line at all if the key is empty.
std::string line_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return line.substr(key.size());
  return "";
}

Finding find_torch() {
  std::string config = at::show_config(), needed = TORCH_VERSION, key = "TORCH_VERSION=", found = "unknown";
  if (size_t at = config.find(key); at != std::string::npos) found = config.substr(at + key.size(), config.find(',', at) - at - key.size());
  auto minor = [](const std::string& version) { return version.substr(0, version.find('.', version.find('.') + 1)); };
  Finding out{"libtorch", found + " (built for " + needed + ")"};
  if (minor(found) != minor(needed))
    out.remedy = "install libtorch " + minor(needed) + " (pip install torch==" + needed + "), or build Tenon again.";
  return out;
}

Finding find_cpu() {
  std::string name = line_of("/proc/cpuinfo", "model name\t: "), features;
  auto add = [&](const char* feature, bool has) { features += has ? std::string(features.empty() ? "" : " ") + feature : ""; };
  add("avx2", __builtin_cpu_supports("avx2") != 0);
  add("fma", __builtin_cpu_supports("fma") != 0);
  add("avx512f", __builtin_cpu_supports("avx512f") != 0);
  add("avx512bf16", __builtin_cpu_supports("avx512bf16") != 0);
  Finding out{"CPU", (name.empty() ? "unknown" : name) + "; " + (features.empty() ? "none of avx2, fma, avx512f" : features)};
#ifdef TENON_NATIVE
  codegen::Tier tier = codegen::best_tier();
  out.found += std::string("; tier ") + codegen::tier_name(tier);
  if (tier == codegen::Tier::portable) out.remedy = "this works, but slowly: use a CPU with AVX2, or enable it in the virtual machine.";
#endif
  return out;
}

Finding find_llvm() {
#ifdef TENON_NATIVE
  return {"code generation", std::string("LLVM ") + codegen::llvm_version()};
#else
  return {"code generation", "none", "build Tenon with -DTENON_NATIVE=ON and LLVM 22 (tools/setup.sh installs it)."};
#endif
}

Finding find_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1, threads = at::get_num_threads();
  Finding out{"threads", std::to_string(threads) + " for " + std::to_string(cpus) + " CPUs"};
  if (threads > cpus) out.remedy = "more threads than CPUs wait for each other: set OMP_NUM_THREADS=" + std::to_string(cpus) + ".";
  return out;
}

Finding find_address_space() {
  rlimit limit{};
  bool is_limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  Finding out{"address space", is_limited ? gigabytes(static_cast<double>(limit.rlim_cur)) : "not limited"};
  if (!capture::addresses_are_available())
    out.remedy = "no addresses are left for deferred ops, so checked calls run in eager: raise the limit (ulimit -v unlimited).";
  return out;
}

Finding find_memory() {
  double available = 1024 * std::strtod(line_of("/proc/meminfo", "MemAvailable:").c_str(), nullptr);
  std::string limit = line_of("/sys/fs/cgroup/memory.max", "");
  Finding out{"memory", gigabytes(available) + " available"};
  if (!limit.empty() && limit != "max") {
    double bytes = std::strtod(limit.c_str(), nullptr);
    out.found += ", limited to " + gigabytes(bytes) + " by the control group";
    available = std::min(available, bytes);
  }
  if (available < kMinMemory) out.remedy = "close other programs, or raise the limit of the container.";
  return out;
}

// Must run before anything is compiled, which takes the keys.
Finding find_keys() {
  std::string taken;
  for (c10::DispatchKey key : {bridge::kOuterListenerKey, bridge::kInnerListenerKey, bridge::kTreeLayerKey})
    if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key)) taken += std::string(" ") + c10::toString(key);
  if (taken.empty()) return {"dispatch keys", "free"};
  return {"dispatch keys", "taken:" + taken,
          "another library of this process uses them: do not load it together with Tenon (LD_PRELOAD?)."};
}

Finding find_compile() {
  Finding out{"compile", "works"};
  try {
    auto function = [](const at::Tensor& x) { return at::relu(x * 2 + 1) * x; };
    auto compiled = compile(function, {.name = "doctor", .on_internal_error = OnInternalError::raise});
    at::Tensor x = at::ones({64});
    for (int i = 0; i < 5; ++i)
      if (!compiled(x).equal(function(x))) out = {"compile", "gives a wrong result", "report this: it is a bug in Tenon."};
    if (explain(compiled).answered == 0)
      out = {"compile", "runs in eager only", "see the other findings; TENON_DEBUG=3 prints what was built."};
  } catch (const std::exception& error) {
    out = {"compile", "fails", error.what()};
  }
  return out;
}

// Prints the findings. Returns the exit code.
int run_doctor() {
  std::vector<Finding> findings = {{"tenon", version()}, find_torch(),         find_cpu(),    find_llvm(),
                                   find_threads(),       find_address_space(), find_memory(), find_keys()};
  findings.push_back(find_compile());
  size_t wrong = 0;
  for (const Finding& finding : findings) {
    std::printf("%-6s %s: %s\n", finding.remedy.empty() ? "ok" : "WRONG", finding.name.c_str(), finding.found.c_str());
    if (finding.remedy.empty()) continue;
    std::printf("       %s\n", finding.remedy.c_str());
    ++wrong;
  }
  std::printf(
      wrong ? "%zu things to mend.\n" : "Nothing is wrong. docs/probe.md says how to see what Tenon would do for your own program.\n",
      wrong);
  return wrong ? 1 : 0;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  app.add_subcommand("doctor", "Checks this machine and says how to mend what is wrong")->callback([&exit_code] {
    exit_code = run_doctor();
  });
}

}  // namespace tenon::cli
