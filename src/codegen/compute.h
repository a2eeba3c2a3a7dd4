// Emits single ops; all operands have the same lane count.
#pragma once

#include "codegen/builder.h"
#include "ir/loop/loop.h"

namespace tenon::codegen {

Value* compute(Builder& b, ir::loop::Op op, ir::DType type, llvm::ArrayRef<Value*> operands);
Value* cast(Builder& b, Value* x, ir::DType from, ir::DType to);

// Reductions: the identity element, the combination of two values, and the reduction of a vector's lanes
// in a tree that depends only on the lane count.
llvm::Constant* identity(Builder& b, ir::loop::Reduction::Kind kind, ir::DType type);
Value* combine(Builder& b, ir::loop::Reduction::Kind kind, ir::DType type, Value* partial, Value* x);
Value* across_lanes(Builder& b, ir::loop::Reduction::Kind kind, ir::DType type, Value* vector);

}  // namespace tenon::codegen
