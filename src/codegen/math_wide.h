// Math functions of f32 that are computed in f64.
#pragma once

#include "codegen/builder.h"
#include "ir/loop/loop.h"

namespace tenon::codegen {

Value* wide_math(Builder& b, ir::loop::Op op, llvm::ArrayRef<Value*> operands);

}  // namespace tenon::codegen
