// LLVM's IRBuilder with the few additions that kernels need. All functions take scalars or vectors and
// return the same shape.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "codegen/target.h"
#include "ir/graph/graph.h"

namespace tenon::codegen {

using llvm::Value;

using CarriedValues = llvm::SmallVector<Value*, 8>;

class Builder : public llvm::IRBuilder<> {
 public:
  Builder(llvm::LLVMContext& context, const TierFacts& tier) : IRBuilder(context), tier(tier) {}

  const TierFacts& tier;

  // LLVM type of a value in registers (i1 for bool, i16 for bf16 and f16) and in memory (i8 for bool).
  llvm::Type* register_type(ir::DType type);
  llvm::Type* memory_type(ir::DType type);

  // Returns `element` with as many lanes as `shape` has.
  static llvm::Type* like(const llvm::Type* shape, llvm::Type* element);
  static llvm::Type* wide(llvm::Type* element, int lanes) { return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes)); }
  static int lanes_of(const Value* value);

  // Constants of x's type.
  static llvm::Constant* real(const Value* x, double constant) { return llvm::ConstantFP::get(x->getType(), constant); }
  static llvm::Constant* integer(const Value* x, int64_t constant) { return llvm::ConstantInt::getSigned(x->getType(), constant); }

  Value* splat(Value* scalar, int lanes) { return CreateVectorSplat(static_cast<unsigned>(lanes), scalar); }
  static llvm::Constant* lane_indices(llvm::Type* element, int lanes);  // Returns <0, 1, 2, …>.

  Value* call(llvm::Intrinsic::ID id, std::initializer_list<Value*> operands) {
    return CreateIntrinsic(id, {(*operands.begin())->getType()}, llvm::ArrayRef<Value*>(operands.begin(), operands.size()));
  }
  // Computes a*b + c, rounded once if the tier has fma, otherwise twice.
  Value* mad(Value* a, Value* b, Value* c);
  // Computes c0 + c1 x + c2 x² + …
  Value* polynomial(Value* x, llvm::ArrayRef<double> coefficients);
  Value* bits(Value* x);                         // Bitcast from reals to integers.
  Value* from_bits(Value* x, llvm::Type* real);  // Bitcast from integers to reals; `real` is an element type.

  // Maximum and minimum as in x86 instructions: the second operand if one is NaN.
  Value* max_or_second(Value* a, Value* b) { return CreateSelect(CreateFCmpOGT(a, b), a, b); }
  Value* min_or_second(Value* a, Value* b) { return CreateSelect(CreateFCmpOLT(a, b), a, b); }

  Value* alloca_at_entry(llvm::Type* type);  // Emits an alloca in the entry block.

  // Emits `for (i = first; i < last; i += step)` with loop-carried values.
  CarriedValues loop(Value* first, Value* last, int64_t step, CarriedValues state,
                     llvm::function_ref<CarriedValues(Value* i, CarriedValues state)> body);
};

}  // namespace tenon::codegen
