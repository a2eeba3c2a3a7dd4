// Functions outside the kernel.
#pragma once

#include "codegen/builder.h"
#include "ir/loop/loop.h"

namespace tenon::codegen {

// Sleef's vector function where the process has it, else call_lanes.
Value* call_outside(Builder& b, ir::loop::Op op, ir::DType type, llvm::ArrayRef<Value*> operands);
// libm for one lane after the other; f32 by way of f64.
Value* call_lanes(Builder& b, ir::loop::Op op, ir::DType type, llvm::ArrayRef<Value*> operands);

}  // namespace tenon::codegen
