// LLVM targets of the tiers, and emission of object files and assembly.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

#include "codegen/codegen.h"

namespace tenon::codegen {

struct TierFacts {
  const char* name;
  const char* cpu;    // LLVM's name of the instruction set.
  int lanes;          // Number of f32 lanes per vector register.
  const char* width;  // Bits per vector register.
  bool has_fma;
  bool has_half;       // The CPU converts f16.
  int masked_element;  // Bytes of the smallest element with masked loads and stores, or 0 if there are none.
};
const TierFacts& facts(Tier tier);

// Sets triple and data layout.
void prepare(llvm::Module& module, Tier tier);

enum class Output { object, assembly };
std::string emit(llvm::Module& module, Tier tier, Output output);

}  // namespace tenon::codegen
