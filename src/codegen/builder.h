// LLVM's builder with the few additions that kernels need. All functions take scalars or vectors and
// answer in kind; constants follow the type that they are asked for.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "codegen/target.h"
#include "ir/graph/graph.h"

namespace tenon::codegen {

using llvm::Value;

class Builder : public llvm::IRBuilder<> {
 public:
  Builder(llvm::LLVMContext& context, const TierFacts& tier) : IRBuilder(context), tier(tier) {}

  const TierFacts& tier;

  // How a type is kept in registers (bool: one bit; halves: their bits) and in memory (bool: a byte).
  llvm::Type* register_type(ir::DType type);
  llvm::Type* memory_type(ir::DType type);

  // `element` with as many lanes as `shape` has.
  static llvm::Type* like(const llvm::Type* shape, llvm::Type* element);
  static llvm::Type* wide(llvm::Type* element, int lanes) { return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes)); }
  static int lanes_of(const Value* value);

  // A constant of x's type; integers for integer types.
  static llvm::Constant* real(const Value* x, double number) { return llvm::ConstantFP::get(x->getType(), number); }
  static llvm::Constant* integer(const Value* x, int64_t number) { return llvm::ConstantInt::getSigned(x->getType(), number); }

  Value* splat(Value* scalar, int lanes) { return CreateVectorSplat(static_cast<unsigned>(lanes), scalar); }
  static llvm::Constant* lane_numbers(llvm::Type* element, int lanes);  // <0, 1, 2, …>

  Value* call(llvm::Intrinsic::ID id, std::initializer_list<Value*> operands) {
    return CreateIntrinsic(id, {(*operands.begin())->getType()}, llvm::ArrayRef<Value*>(operands.begin(), operands.size()));
  }
  // a*b + c, rounded once where that is one instruction, else twice.
  Value* mad(Value* a, Value* b, Value* c);
  // c0 + c1 x + c2 x² + …
  Value* polynomial(Value* x, llvm::ArrayRef<double> coefficients);
  Value* bits(Value* x);                         // of a real, as integers
  Value* from_bits(Value* x, llvm::Type* real);  // and back; `real` is an element type

  // As the instructions do it: the second operand if one is NaN.
  Value* above(Value* a, Value* b) { return CreateSelect(CreateFCmpOGT(a, b), a, b); }
  Value* below(Value* a, Value* b) { return CreateSelect(CreateFCmpOLT(a, b), a, b); }

  Value* room(llvm::Type* type);  // on the stack

  // for (i = first; i < last; i += step), with values that are handed from one iteration to the next.
  using State = llvm::SmallVector<Value*, 8>;
  State loop(Value* first, Value* last, int64_t step, State state, llvm::function_ref<State(Value* i, State state)> body);
};

}  // namespace tenon::codegen
