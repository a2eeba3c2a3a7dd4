#include "codegen/builder.h"

#include "base/error.h"

namespace tenon::codegen {

using ir::DType;

llvm::Type* Builder::register_type(DType type) {
  switch (type) {
    case DType::f32:
      return getFloatTy();
    case DType::f64:
      return getDoubleTy();
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return getInt16Ty();
    case DType::i64:
      return getInt64Ty();
    case DType::i32:
      return getInt32Ty();
    case DType::i8:
    case DType::u8:
      return getInt8Ty();
    case DType::boolean:
      return getInt1Ty();
    default:
      throw InternalError(std::string("kernels do not know the type ") + dtype_name(type));
  }
}

llvm::Type* Builder::memory_type(DType type) { return type == DType::boolean ? getInt8Ty() : register_type(type); }

llvm::Type* Builder::like(const llvm::Type* shape, llvm::Type* element) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(shape);
  return vector ? llvm::FixedVectorType::get(element, vector->getNumElements()) : element;
}

int Builder::lanes_of(const Value* value) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

llvm::Constant* Builder::lane_indices(llvm::Type* element, int lanes) {
  llvm::SmallVector<llvm::Constant*, 16> indices;
  for (int lane = 0; lane < lanes; ++lane) indices.push_back(llvm::ConstantInt::get(element, static_cast<uint64_t>(lane)));
  return llvm::ConstantVector::get(indices);
}

Value* Builder::mad(Value* a, Value* b, Value* c) {
  if (tier.has_fma) return call(llvm::Intrinsic::fma, {a, b, c});
  return CreateFAdd(CreateFMul(a, b), c);
}

Value* Builder::polynomial(Value* x, llvm::ArrayRef<double> coefficients) {
  Value* sum = real(x, coefficients.back());
  for (double c : llvm::reverse(coefficients.drop_back())) sum = mad(sum, x, real(x, c));
  return sum;
}

Value* Builder::bits(Value* x) {
  llvm::Type* type = x->getType();
  return CreateBitCast(x, like(type, getIntNTy(type->getScalarSizeInBits())));
}

Value* Builder::from_bits(Value* x, llvm::Type* real) { return CreateBitCast(x, like(x->getType(), real)); }

Value* Builder::alloca_at_entry(llvm::Type* type) {
  llvm::BasicBlock& entry = GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  return at_entry.CreateAlloca(type);
}

CarriedValues Builder::loop(Value* first, Value* last, int64_t step, CarriedValues state,
                            llvm::function_ref<CarriedValues(Value* i, CarriedValues state)> body) {
  llvm::BasicBlock* before = GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* inside = llvm::BasicBlock::Create(getContext(), "loop", function);
  auto* after = llvm::BasicBlock::Create(getContext(), "done", function);
  CreateCondBr(CreateICmpSLT(first, last), inside, after);

  SetInsertPoint(inside);
  llvm::PHINode* i = CreatePHI(getInt64Ty(), 2);
  i->addIncoming(first, before);
  llvm::SmallVector<llvm::PHINode*, 8> entering, leaving;
  CarriedValues current;
  for (Value* value : state) {
    entering.push_back(CreatePHI(value->getType(), 2));
    entering.back()->addIncoming(value, before);
    current.push_back(entering.back());
  }
  CarriedValues next = body(i, current);
  Value* next_i = CreateAdd(i, getInt64(static_cast<uint64_t>(step)), "", true, true);
  llvm::BasicBlock* end = GetInsertBlock();
  i->addIncoming(next_i, end);
  for (size_t k = 0; k < next.size(); ++k) entering[k]->addIncoming(next[k], end);
  CreateCondBr(CreateICmpSLT(next_i, last), inside, after);

  after->moveAfter(end);
  SetInsertPoint(after);
  CarriedValues result;
  for (size_t k = 0; k < next.size(); ++k) {
    llvm::PHINode* value = CreatePHI(next[k]->getType(), 2);
    value->addIncoming(state[k], before);
    value->addIncoming(next[k], end);
    result.push_back(value);
  }
  return result;
}

}  // namespace tenon::codegen
