// Tiers as LLVM knows them, and the way from a module to bytes.
#pragma once

#include <llvm/IR/Module.h>

#include <string>

#include "codegen/codegen.h"

namespace tenon::codegen {

struct TierFacts {
  const char* name;
  const char* cpu;    // LLVM's name of the instruction set
  int lanes;          // f32 elements of one register
  const char* width;  // of one register, in bits
  bool has_fma;
  bool has_half;       // converts f16
  int masked_element;  // the smallest element that can be loaded and stored under a mask, in bytes; 0: none
};
const TierFacts& facts(Tier tier);

// Triple and data layout, which decide how types lie in memory.
void prepare(llvm::Module& module, Tier tier);

enum class Output { object, assembly };
std::string emit(llvm::Module& module, Tier tier, Output output);

}  // namespace tenon::codegen
