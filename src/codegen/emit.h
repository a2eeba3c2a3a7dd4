// Emits a kernel as an LLVM module.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>

#include "codegen/codegen.h"

namespace tenon::codegen {

// Function name in each module. It does not depend on the kernel's name, so that equal kernels have equal bytes.
inline constexpr const char* kEntryPoint = "tenon_kernel";

std::unique_ptr<llvm::Module> emit_module(const ir::loop::LoopKernel& kernel, Tier tier, llvm::LLVMContext& context);

}  // namespace tenon::codegen
