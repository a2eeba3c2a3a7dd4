// Kernel to LLVM module.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>

#include "codegen/codegen.h"

namespace tenon::codegen {

// What the function of each module is called, whatever the kernel's name: equal kernels have equal bytes.
inline constexpr const char* kEntry = "tenon_kernel";

std::unique_ptr<llvm::Module> emit_module(const ir::loop::Kernel& kernel, Tier tier, llvm::LLVMContext& context);

}  // namespace tenon::codegen
