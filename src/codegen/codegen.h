// Loop kernel in, callable machine code out. The only folder that uses LLVM, and its headers stay
// inside. What a kernel's text says is computed bit for bit: nothing is contracted or reassociated.
// Only sums are free: their order is fixed by the loop's extent and the tier, partial sums have more
// bits, and a product that nobody else reads is added with one rounding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "abi/kernel.h"
#include "ir/loop/loop.h"

namespace tenon::codegen {

// Instruction sets: x86-64-v2, -v3 and -v4, with vectors of 128, 256 and 512 bits.
enum class Tier : uint8_t { portable, avx2, avx512 };
inline constexpr Tier kTiers[] = {Tier::portable, Tier::avx2, Tier::avx512};

const char* tier_name(Tier tier);
Tier best_tier();  // of this CPU

// Machine code in memory; given back when the last owner lets go.
struct Code {
  abi::KernelFunction run = nullptr;
  size_t bytes = 0;  // of memory that it holds, in whole pages
};

// The object file of a kernel: the unit that is worth keeping. Equal kernels give equal bytes.
std::string object(const ir::loop::Kernel& kernel, Tier tier);
// Brings an object file of this tier's CPU into memory.
std::shared_ptr<const Code> load(const std::string& object);

// Both of these in one. All functions here may run on many threads at once. The kernel must hold to
// the rules of verify.h; what the CPU lacks is not checked.
std::shared_ptr<const Code> compile(const ir::loop::Kernel& kernel, Tier tier);

// For people; the first also has LLVM check the code.
std::string llvm_text(const ir::loop::Kernel& kernel, Tier tier);
std::string assembly(const ir::loop::Kernel& kernel, Tier tier);

struct Counters {
  int64_t compiled = 0;    // kernels turned into object files
  int64_t live = 0;        // pieces of code in memory
  int64_t live_bytes = 0;  // their memory
};
Counters counters();

}  // namespace tenon::codegen
