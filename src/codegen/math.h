// Functions of ops.def that are no single instruction.
#pragma once

#include "codegen/builder.h"
#include "ir/loop/loop.h"

namespace tenon::codegen {

// Within 1.5 units in the last place. f32: own polynomials for most (see math_f32.cpp); the others and
// f64: Sleef's vector functions where the process has them, else libm lane by lane.
Value* math(Builder& b, ir::loop::Op op, ir::DType type, llvm::ArrayRef<Value*> operands);

bool is_math(ir::loop::Op op);
// Whether a function outside the kernel is called, and about how many instructions it is if not.
bool is_called(ir::loop::Op op, ir::DType type);
int math_cost(ir::loop::Op op, ir::DType type);

}  // namespace tenon::codegen
