#include "codegen/math.h"

#include "codegen/math_calls.h"

namespace tenon::codegen {

using namespace ir::loop;
using ir::DType;

bool is_math(Op op) { return op == Op::fmod || (op >= Op::exp && op <= Op::pow); }

bool is_called(Op op, DType type) { return is_math(op); }

int math_cost(Op op, DType type) { return is_math(op) ? 20 : 0; }

Value* math(Builder& b, Op op, DType type, llvm::ArrayRef<Value*> operands) { return call_outside(b, op, type, operands); }

}  // namespace tenon::codegen
