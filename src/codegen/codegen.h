// Compiles loop kernels to machine code. This is the only folder that uses LLVM, and no LLVM header is
// visible outside it. Kernels are computed exactly as written: nothing is contracted or reassociated.
// Only sums differ: their order depends on the loop's extent and the tier, partial sums have more
// precision, and a product that nobody else reads is added with one rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "abi/kernel.h"
#include "ir/loop/loop.h"

namespace tenon::codegen {

// Instruction sets x86-64-v2, -v3 and -v4, with vectors of 128, 256 and 512 bits.
enum class Tier : uint8_t { portable, avx2, avx512 };
inline constexpr Tier kTiers[] = {Tier::portable, Tier::avx2, Tier::avx512};

const char* tier_name(Tier tier);
Tier best_tier();  // Returns the best tier that this CPU supports.
const char* llvm_version();

// Machine code in memory; it is freed with its last owner.
struct MachineCode {
  abi::KernelFunction run = nullptr;
  size_t bytes = 0;  // Allocated memory, in whole pages.
};

// Returns the object file of a kernel, which can be cached. Equal kernels have equal bytes.
std::string object(const ir::loop::LoopKernel& kernel, Tier tier);
// Links an object file into memory.
std::shared_ptr<const MachineCode> load(const std::string& object);

// Compiles and links a kernel. All functions here are thread-safe. The kernel must be verified; whether
// the CPU supports the tier is not checked.
std::shared_ptr<const MachineCode> compile(const ir::loop::LoopKernel& kernel, Tier tier);

// Text output for debugging; llvm_text also runs LLVM's verifier.
std::string llvm_text(const ir::loop::LoopKernel& kernel, Tier tier);
std::string assembly(const ir::loop::LoopKernel& kernel, Tier tier);

struct CodegenCounters {
  int64_t compiled = 0;    // Number of kernels compiled to object files.
  int64_t live = 0;        // Number of kernels linked in memory.
  int64_t live_bytes = 0;  // Memory of the linked kernels.
};
CodegenCounters counters();

}  // namespace tenon::codegen
