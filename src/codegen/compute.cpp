#include "codegen/compute.h"

#include <limits>

#include "base/error.h"
#include "codegen/math.h"

namespace tenon::codegen {
namespace {

using namespace ir::loop;
using ir::DType;
using llvm::Intrinsic::ID;
namespace Intrinsic = llvm::Intrinsic;

bool is_unsigned(DType type) { return type == DType::u8 || type == DType::boolean; }

// Emits max or min; a NaN wins.
Value* extreme(Builder& b, bool is_max, DType type, Value* x, Value* y) {
  if (!is_real(type)) {
    ID id = is_unsigned(type) ? (is_max ? Intrinsic::umax : Intrinsic::umin) : (is_max ? Intrinsic::smax : Intrinsic::smin);
    return b.call(id, {x, y});
  }
  Value* taken = is_max ? b.max_or_second(x, y) : b.min_or_second(x, y);  // The result is y if one operand is NaN.
  return b.CreateSelect(b.CreateFCmpUNO(x, x), x, taken);
}

Value* real_arithmetic(Builder& b, Op op, DType type, llvm::ArrayRef<Value*> x) {
  switch (op) {
    case Op::add:
      return b.CreateFAdd(x[0], x[1]);
    case Op::sub:
      return b.CreateFSub(x[0], x[1]);
    case Op::mul:
      return b.CreateFMul(x[0], x[1]);
    case Op::div:
      return b.CreateFDiv(x[0], x[1]);
    case Op::neg:
      return b.CreateFNeg(x[0]);
    case Op::abs:
      return b.call(Intrinsic::fabs, {x[0]});
    case Op::fma:
      return b.mad(x[0], x[1], x[2]);
    case Op::sqrt:
      return b.call(Intrinsic::sqrt, {x[0]});
    case Op::floor:
      return b.call(Intrinsic::floor, {x[0]});
    case Op::ceil:
      return b.call(Intrinsic::ceil, {x[0]});
    case Op::trunc:
      return b.call(Intrinsic::trunc, {x[0]});
    case Op::round:
      return b.call(Intrinsic::roundeven, {x[0]});
    case Op::copysign:
      return b.call(Intrinsic::copysign, {x[0], x[1]});
    default:
      throw InternalError(std::string("no code for ") + op_name(op));
  }
}

Value* integer_arithmetic(Builder& b, Op op, llvm::ArrayRef<Value*> x, DType type) {
  switch (op) {
    case Op::add:
      return b.CreateAdd(x[0], x[1]);
    case Op::sub:
      return b.CreateSub(x[0], x[1]);
    case Op::mul:
      return b.CreateMul(x[0], x[1]);
    case Op::neg:
      return b.CreateNeg(x[0]);
    case Op::abs:
      if (is_unsigned(type)) return x[0];
      return b.CreateIntrinsic(Intrinsic::abs, {x[0]->getType()}, {x[0], b.getFalse()});
    case Op::bit_and:
      return b.CreateAnd(x[0], x[1]);
    case Op::bit_or:
      return b.CreateOr(x[0], x[1]);
    case Op::bit_xor:
      return b.CreateXor(x[0], x[1]);
    case Op::bit_not:
      return b.CreateNot(x[0]);
    default:
      throw InternalError(std::string("no code for ") + op_name(op));
  }
}

Value* compare(Builder& b, Op op, DType type, Value* x, Value* y) {
  using P = llvm::CmpInst::Predicate;
  auto pick = [&](P real, P with_sign, P without_sign) {
    P predicate = is_real(type) ? real : is_unsigned(type) ? without_sign : with_sign;
    return b.CreateCmp(predicate, x, y);
  };
  switch (op) {
    case Op::eq:
      return pick(P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ);
    case Op::ne:
      return pick(P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE);
    case Op::lt:
      return pick(P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT);
    case Op::le:
      return pick(P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE);
    case Op::gt:
      return pick(P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT);
    default:
      return pick(P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE);
  }
}

}  // namespace

Value* compute(Builder& b, Op op, DType type, llvm::ArrayRef<Value*> x) {
  if (op_kind(op) == OpKind::compare) return compare(b, op, type, x[0], x[1]);
  if (op_kind(op) == OpKind::select) return b.CreateSelect(x[0], x[1], x[2]);
  if (op == Op::max || op == Op::min) return extreme(b, op == Op::max, type, x[0], x[1]);
  if (is_math(op)) return math(b, op, type, x);
  return is_real(type) ? real_arithmetic(b, op, type, x) : integer_arithmetic(b, op, x, type);
}

llvm::Constant* identity(Builder& b, Reduction::Kind kind, DType type) {
  llvm::Type* t = b.register_type(type);
  bool is_max = kind == Reduction::Kind::max;
  switch (kind) {
    case Reduction::Kind::sum:
    case Reduction::Kind::any:
      return llvm::Constant::getNullValue(t);
    case Reduction::Kind::prod:
    case Reduction::Kind::all:
      return is_real(type) ? llvm::ConstantFP::get(t, 1.0) : llvm::ConstantInt::get(t, 1);
    case Reduction::Kind::max:
    case Reduction::Kind::min:
      break;
  }
  if (is_real(type)) return llvm::ConstantFP::getInfinity(t, is_max);
  unsigned bits = t->getIntegerBitWidth();
  if (is_unsigned(type)) return llvm::ConstantInt::get(t, is_max ? llvm::APInt::getMinValue(bits) : llvm::APInt::getMaxValue(bits));
  return llvm::ConstantInt::get(t, is_max ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
}

Value* combine(Builder& b, Reduction::Kind kind, DType type, Value* partial, Value* x) {
  switch (kind) {
    case Reduction::Kind::sum:
      return is_real(type) ? b.CreateFAdd(partial, x) : b.CreateAdd(partial, x);
    case Reduction::Kind::prod:
      return is_real(type) ? b.CreateFMul(partial, x) : b.CreateMul(partial, x);
    case Reduction::Kind::max:
    case Reduction::Kind::min:
      return extreme(b, kind == Reduction::Kind::max, type, partial, x);
    case Reduction::Kind::any:
      return b.CreateOr(partial, x);
    case Reduction::Kind::all:
      return b.CreateAnd(partial, x);
  }
  return nullptr;
}

Value* across_lanes(Builder& b, Reduction::Kind kind, DType type, Value* vector) {
  for (int half = Builder::lanes_of(vector) / 2; half >= 1; half /= 2) {
    llvm::SmallVector<int, 16> low, high;
    for (int lane = 0; lane < half; ++lane) {
      low.push_back(lane);
      high.push_back(lane + half);
    }
    vector = combine(b, kind, type, b.CreateShuffleVector(vector, low), b.CreateShuffleVector(vector, high));
  }
  return b.CreateExtractElement(vector, static_cast<uint64_t>(0));
}

}  // namespace tenon::codegen
