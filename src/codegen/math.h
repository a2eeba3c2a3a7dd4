// Functions of ops.def that need more than one instruction.
#pragma once

#include "codegen/builder.h"
#include "ir/loop/loop.h"

namespace tenon::codegen {

// Emits a function with an error below 1.5 ulp. Most f32 functions are polynomials of our own
// (math_f32.cpp, math_wide.cpp); the others and f64 call Sleef's vector functions if the process has them,
// otherwise libm lane by lane.
Value* math(Builder& b, ir::loop::Op op, ir::DType type, llvm::ArrayRef<Value*> operands);

bool is_math(ir::loop::Op op);
// Return whether a library function is called, and the approximate number of instructions if not.
bool is_called(ir::loop::Op op, ir::DType type);
int math_cost(ir::loop::Op op, ir::DType type);

}  // namespace tenon::codegen
