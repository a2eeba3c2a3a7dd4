// Random kernels: machine code of every tier compared with the evaluator. Each kernel runs with guard
// pages directly after its buffers and again with guard pages directly before them, as one range and as
// several ranges; all runs of one tier must agree bit for bit.
//
//   random_kernels [--seconds 20] [--seed N] [--one SEED] [--tier NAME] [--sleef libtorch_cpu.so]
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "codegen/codegen.h"
#include "ir/loop/evaluate.h"
#include "ir/loop/print.h"
#include "support/random_kernel.h"

namespace tenon::test {
namespace {

using codegen::Tier;
using Clock = std::chrono::steady_clock;

// Copies of buffers that begin directly after an inaccessible page. The rest of their last page must not
// change.
class FrontGuarded {
 public:
  explicit FrontGuarded(const KernelMemory& memory) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (const GuardedBuffer& buffer : memory.buffers) {
      size_t bytes = (buffer.bytes() / page + 1) * page;
      void* mapping = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (mapping == MAP_FAILED || mprotect(mapping, page, PROT_NONE) != 0) std::abort();
      auto* begin = static_cast<char*>(mapping) + page;
      std::memset(begin, kPattern, bytes);
      std::memcpy(begin, buffer.data(), buffer.bytes());
      mappings_.push_back({static_cast<char*>(mapping), bytes + page, begin});
    }
  }
  ~FrontGuarded() {
    for (const Mapping& mapping : mappings_) munmap(mapping.mapping, mapping.length);
  }
  FrontGuarded(const FrontGuarded&) = delete;

  std::vector<void*> pointers() const {
    std::vector<void*> out;
    for (const Mapping& mapping : mappings_) out.push_back(mapping.begin);
    return out;
  }
  bool equals(const KernelMemory& memory) const {
    for (size_t i = 0; i < mappings_.size(); ++i) {
      size_t bytes = memory.buffers[i].bytes();
      if (std::memcmp(mappings_[i].begin, memory.buffers[i].data(), bytes) != 0) return false;
      for (char* c = mappings_[i].begin + bytes; c < mappings_[i].mapping + mappings_[i].length; ++c)
        if (*c != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr char kPattern = 0x5a;
  struct Mapping {
    char* mapping;
    size_t length;
    char* begin;
  };
  std::vector<Mapping> mappings_;
};

bool same_bytes(const KernelMemory& a, const KernelMemory& b) {
  for (size_t i = 0; i < a.buffers.size(); ++i)
    if (std::memcmp(a.buffers[i].data(), b.buffers[i].data(), a.buffers[i].bytes()) != 0) return false;
  return true;
}

// Returns "" or a description of the problem.
std::string check(const RandomKernel& r, const codegen::MachineCode& code, const KernelMemory& before, const KernelMemory& expected,
                  std::mt19937_64& random) {
  KernelMemory whole = before, split = before;
  FrontGuarded front(before);
  abi::KernelArguments arguments = whole.arguments();
  int64_t count = iterations(r.kernel, whole);
  code.run(0, count, &arguments);
  std::string problem = difference(r.kernel, whole, expected, r.tolerances);
  if (!problem.empty()) return problem;

  arguments = split.arguments();
  for (int64_t begin = 0; begin < count;) {
    int64_t end = begin + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(count - begin));
    code.run(begin, end, &arguments);
    begin = end;
  }
  if (!same_bytes(whole, split)) return "in several ranges: other bytes";

  std::vector<void*> pointers = front.pointers();
  arguments.buffers = pointers.data();
  code.run(0, count, &arguments);
  if (!front.equals(whole)) return "guarded in front: other bytes";
  return "";
}

struct Tally {
  int64_t kernels = 0, runs = 0;
};

bool one(uint64_t seed, std::optional<Tier> only, Tally& tally) {
  std::mt19937_64 random(seed);
  RandomKernel r = random_kernel(random);
  std::vector<KernelMemory> before, expected;
  for (int i = 0; i < 3; ++i) {
    before.push_back(random_memory(r, random));
    expected.push_back(before.back());
    evaluate(r.kernel, expected.back().arguments());
  }
  ++tally.kernels;
  for (Tier tier : codegen::kTiers) {
    if (tier > codegen::best_tier() || (only && tier != *only)) continue;
    codegen::llvm_text(r.kernel, tier);  // Throws if LLVM's verifier rejects the module.
    auto code = codegen::compile(r.kernel, tier);
    for (size_t i = 0; i < before.size(); ++i, ++tally.runs) {
      std::string problem = check(r, *code, before[i], expected[i], random);
      if (problem.empty()) continue;
      std::printf("seed %llu, %s, memory %zu: %s\n%s", static_cast<unsigned long long>(seed), tier_name(tier), i, problem.c_str(),
                  print(r.kernel).c_str());
      std::printf("sizes:");
      for (int64_t size : before[i].sizes) std::printf(" %lld", static_cast<long long>(size));
      std::printf("\n");
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace tenon::test

int main(int argc, char** argv) {
  using namespace tenon::test;
  double seconds = 20;
  const char* from = std::getenv("TENON_SEED");
  uint64_t seed = from ? std::strtoull(from, nullptr, 10) : 1;
  std::optional<uint64_t> only;
  std::optional<Tier> tier;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--seconds") seconds = std::stod(value);
    if (flag == "--seed") seed = std::stoull(value);
    if (flag == "--one") only = std::stoull(value);
    if (flag == "--sleef" && !dlopen(value.c_str(), RTLD_NOW | RTLD_GLOBAL)) return std::fprintf(stderr, "%s\n", dlerror()), 2;
    for (Tier t : tenon::codegen::kTiers)
      if (flag == "--tier" && value == tier_name(t)) tier = t;
  }
  Tally tally;
  if (only) return one(*only, tier, tally) ? 0 : 1;
  auto start = Clock::now();
  bool is_good = true;
  for (uint64_t i = 0; is_good && std::chrono::duration<double>(Clock::now() - start).count() < seconds; ++i)
    is_good = one(seed * 1000003 + i, tier, tally);
  std::printf("random_kernels: seed %llu, %lld kernels, %lld runs, %s\n", static_cast<unsigned long long>(seed),
              static_cast<long long>(tally.kernels), static_cast<long long>(tally.runs), is_good ? "all well" : "wrong");
  return is_good ? 0 : 1;
}
