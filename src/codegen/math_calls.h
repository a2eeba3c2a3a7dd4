// Functions outside the kernel.
#pragma once

#include "codegen/builder.h"
#include "ir/loop/loop.h"

namespace tenon::codegen {

Value* call_outside(Builder& b, ir::loop::Op op, ir::DType type, llvm::ArrayRef<Value*> operands);

}  // namespace tenon::codegen
