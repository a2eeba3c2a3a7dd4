#include "codegen/target.h"

#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include <mutex>
#include <vector>

#include "base/error.h"

namespace tenon::codegen {
namespace {

constexpr TierFacts kFacts[] = {
    {"portable", "x86-64-v2", 4, "128", false, false, 0},
    {"avx2", "x86-64-v3", 8, "256", true, true, 4},
    {"avx512", "x86-64-v4", 16, "512", true, true, 1},
};

using Machine = std::unique_ptr<llvm::TargetMachine>;

// Loop strength reduction takes half of the compile time and finds nothing that address_of() has not done.
void switch_off(const char* pass) {
  auto& options = llvm::cl::getRegisteredOptions();
  if (auto found = options.find(pass); found != options.end()) static_cast<llvm::cl::opt<bool>*>(found->second)->setValue(true);
}

Machine make_machine(Tier tier) {
  static const llvm::Target* target = [] {
    switch_off("disable-lsr");
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    std::string error;
    return llvm::TargetRegistry::lookupTarget(llvm::Triple("x86_64-unknown-linux-gnu"), error);
  }();
  if (!target) throw InternalError("LLVM was built without X86");
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // The kernel's text decides where fma is used.
  options.MCOptions.OutputAsmVariant = 1;              // Intel syntax.
  return Machine(target->createTargetMachine(llvm::Triple("x86_64-unknown-linux-gnu"), facts(tier).cpu, "", options, llvm::Reloc::PIC_,
                                             llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
}

// Idle target machines. A TargetMachine serves one thread at a time and is expensive to create.
class MachinePool {
 public:
  Machine take(Tier tier) {
    {
      std::lock_guard lock(mutex_);
      auto& idle = idle_[static_cast<size_t>(tier)];
      if (!idle.empty()) {
        Machine machine = std::move(idle.back());
        idle.pop_back();
        return machine;
      }
    }
    return make_machine(tier);
  }
  void give_back(Tier tier, Machine machine) {
    std::lock_guard lock(mutex_);
    idle_[static_cast<size_t>(tier)].push_back(std::move(machine));
  }

 private:
  std::mutex mutex_;
  std::vector<Machine> idle_[std::size(kFacts)];
};

MachinePool& pool() {
  static MachinePool& pool = *new MachinePool;  // The pool is never destroyed, since threads may compile during static destruction.
  return pool;
}

class BorrowedMachine {
 public:
  explicit BorrowedMachine(Tier tier) : tier_(tier), machine_(pool().take(tier)) {}
  ~BorrowedMachine() { pool().give_back(tier_, std::move(machine_)); }
  llvm::TargetMachine& operator*() { return *machine_; }

 private:
  Tier tier_;
  Machine machine_;
};

}  // namespace

const TierFacts& facts(Tier tier) { return kFacts[static_cast<size_t>(tier)]; }
const char* tier_name(Tier tier) { return facts(tier).name; }
const char* llvm_version() { return LLVM_VERSION_STRING; }

Tier best_tier() {
  static const Tier best = [] {
    auto has = llvm::sys::getHostCPUFeatures();
    auto all = [&](std::initializer_list<const char*> names) {
      for (const char* name : names)
        if (!has.lookup(name)) return false;
      return true;
    };
    if (!all({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"})) return Tier::portable;
    if (!all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})) return Tier::avx2;
    return Tier::avx512;
  }();
  return best;
}

void prepare(llvm::Module& module, Tier tier) {
  BorrowedMachine machine(tier);
  module.setTargetTriple((*machine).getTargetTriple());
  module.setDataLayout((*machine).createDataLayout());
}

std::string emit(llvm::Module& module, Tier tier, Output output) {
  BorrowedMachine machine(tier);
  llvm::SmallVector<char, 0> bytes;
  {
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager passes;
    bool failed;
    if (output == Output::object) {
      llvm::MCContext* context = nullptr;
      failed = (*machine).addPassesToEmitMC(passes, context, stream, /*DisableVerify=*/true);
    } else {
      failed = (*machine).addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile, /*DisableVerify=*/true);
    }
    if (failed) throw InternalError("LLVM cannot write machine code for " + std::string(facts(tier).cpu));
    passes.run(module);
  }
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace tenon::codegen
