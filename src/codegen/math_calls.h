// Calls of library functions from kernels.
#pragma once

#include "codegen/builder.h"
#include "ir/loop/loop.h"

namespace tenon::codegen {

// Calls Sleef's vector function if the process has it, otherwise call_lanes.
Value* call_library(Builder& b, ir::loop::Op op, ir::DType type, llvm::ArrayRef<Value*> operands);
// Calls libm for one lane after the other; f32 is computed in f64.
Value* call_lanes(Builder& b, ir::loop::Op op, ir::DType type, llvm::ArrayRef<Value*> operands);

}  // namespace tenon::codegen
