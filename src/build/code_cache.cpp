#include "build/code_cache.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/flags.h"
#include "ir/loop/parse.h"
#include "ir/loop/print.h"
#include "ir/loop/verify.h"
#include "passes/runner.h"
#ifdef TENON_NATIVE
#include "codegen/codegen.h"
#endif

namespace tenon::build {

#ifdef TENON_NATIVE
namespace {

using CodePointer = std::shared_ptr<const codegen::MachineCode>;

// TENON_TIER=portable or avx2 selects a smaller instruction set than the CPU has.
codegen::Tier chosen_tier() {
  static const codegen::Tier tier = [] {
    const char* wanted = flag_text(Flag::tier);
    if (!wanted) return codegen::best_tier();
    for (codegen::Tier tier : codegen::kTiers)
      if (tier <= codegen::best_tier() && wanted == std::string(codegen::tier_name(tier))) return tier;
    throw UserError(ErrorCode::backend, "TENON_TIER=" + std::string(wanted) + " is not available; this CPU supports portable up to " +
                                            codegen::tier_name(codegen::best_tier()));
  }();
  return tier;
}

// tools/kernel_digest parses this output.
void show(const ir::loop::LoopKernel& kernel, codegen::Tier tier) {
  if (passes::debug_level() >= 4) std::cerr << "# kernel\n" + ir::loop::print(kernel);
  if (passes::debug_level() >= 5)
    std::cerr << "# assembly of " + kernel.name + "\n" + codegen::assembly(kernel, tier) + "# end of assembly\n";
}

// Cache of machine code by kernel text and tier. An entry lives as long as somebody uses the code.
class CodeCache {
 public:
  CodePointer get(const std::string& kernel_key, const ir::loop::LoopKernel& kernel, codegen::Tier tier) {
    std::string key = kernel_key + codegen::tier_name(tier);
    {
      std::lock_guard lock(mutex_);
      if (auto known = codes_.find(key); known != codes_.end())
        if (CodePointer code = known->second.lock()) return code;
    }
    ir::loop::verify(kernel);
    show(kernel, tier);
    CodePointer code = codegen::compile(kernel, tier);
    std::lock_guard lock(mutex_);
    std::erase_if(codes_, [](const auto& entry) { return entry.second.expired(); });
    codes_[key] = code;
    return code;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const codegen::MachineCode>> codes_;
};

CodeCache& code_cache() {
  static CodeCache* all = new CodeCache;
  return *all;
}

}  // namespace

std::vector<CompiledKernel> compile_kernels(const std::vector<loops::Lowered>& lowered, bool has_narrow_vectors) {
  codegen::Tier tier = has_narrow_vectors ? codegen::Tier::avx2 : chosen_tier();
  std::map<std::string, size_t> first;  // Index of the first kernel with each key.
  std::vector<size_t> work;
  for (size_t i = 0; i < lowered.size(); ++i)
    if (first.emplace(lowered[i].key, i).second) work.push_back(i);
  std::vector<CodePointer> codes(lowered.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  auto compile = [&] {
    try {
      for (size_t w; (w = next++) < work.size();) codes[work[w]] = code_cache().get(lowered[work[w]].key, lowered[work[w]].kernel, tier);
    } catch (...) {
      std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min<size_t>(work.size(), std::thread::hardware_concurrency()); ++i) threads.emplace_back(compile);
  compile();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  std::vector<CompiledKernel> out;
  for (const loops::Lowered& l : lowered) out.push_back({codes[first.at(l.key)]->run, codes[first.at(l.key)]});
  return out;
}

bool has_native() { return true; }
bool has_wide_vectors() { return chosen_tier() > codegen::Tier::avx2; }
std::string llvm_text(const std::string& kernel) { return codegen::llvm_text(ir::loop::parse_kernel(kernel), chosen_tier()); }
std::string assembly(const std::string& kernel) { return codegen::assembly(ir::loop::parse_kernel(kernel), chosen_tier()); }
#else
std::vector<CompiledKernel> compile_kernels(const std::vector<loops::Lowered>&, bool) {
  throw InternalError("this build has no code generation; configure it with TENON_NATIVE=ON");
}
bool has_native() { return false; }
bool has_wide_vectors() { return false; }
std::string llvm_text(const std::string&) { return ""; }
std::string assembly(const std::string&) { return ""; }
#endif

}  // namespace tenon::build
