// One op on values of one lane count.
#pragma once

#include "codegen/builder.h"
#include "ir/loop/loop.h"

namespace tenon::codegen {

Value* compute(Builder& b, ir::loop::Op op, ir::DType type, llvm::ArrayRef<Value*> operands);
Value* cast(Builder& b, Value* x, ir::DType from, ir::DType to);

// Of reductions: what no iterations give, one more value, and all lanes of a vector in a tree that the
// lane count alone decides.
llvm::Constant* identity(Builder& b, ir::loop::Reduction::Kind kind, ir::DType type);
Value* combine(Builder& b, ir::loop::Reduction::Kind kind, ir::DType type, Value* sofar, Value* x);
Value* across_lanes(Builder& b, ir::loop::Reduction::Kind kind, ir::DType type, Value* vector);

}  // namespace tenon::codegen
