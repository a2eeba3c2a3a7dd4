// Conversions with ATen's semantics. bf16 and f16 are kept as bits and are converted through f32.
#include "codegen/compute.h"

namespace tenon::codegen {
namespace {

using namespace ir::loop;
using ir::DType;

Value* from_bf16(Builder& b, Value* x) {
  Value* wide = b.CreateZExt(x, Builder::like(x->getType(), b.getInt32Ty()));
  return b.from_bits(b.CreateShl(wide, Builder::integer(wide, 16)), b.getFloatTy());
}

Value* to_bf16(Builder& b, Value* x) {
  Value* bits = b.bits(x);
  Value* odd = b.CreateAnd(b.CreateLShr(bits, Builder::integer(bits, 16)), Builder::integer(bits, 1));
  Value* rounded = b.CreateAdd(bits, b.CreateAdd(odd, Builder::integer(bits, 0x7fff)));
  Value* top = b.CreateLShr(rounded, Builder::integer(bits, 16));
  top = b.CreateSelect(b.CreateFCmpUNO(x, x), Builder::integer(bits, 0x7fc0), top);
  return b.CreateTrunc(top, Builder::like(x->getType(), b.getInt16Ty()));
}

Value* from_f16(Builder& b, Value* x) {
  if (b.tier.has_half) return b.CreateFPExt(b.from_bits(x, b.getHalfTy()), Builder::like(x->getType(), b.getFloatTy()));
  Value* wide = b.CreateZExt(x, Builder::like(x->getType(), b.getInt32Ty()));
  auto constant = [&](int64_t n) { return Builder::integer(wide, n); };
  Value* magnitude = b.CreateShl(b.CreateAnd(wide, constant(0x7fff)), constant(13));
  Value* exponent = b.CreateAnd(magnitude, constant(0x7c00 << 13));
  Value* normal = b.CreateAdd(magnitude, constant(112 << 23));
  Value* special = b.CreateAdd(normal, constant(112 << 23));  // Infinity or NaN.
  // Subnormal halves are normalized by a subtraction of normal numbers, so that flushing denormals to
  // zero does no harm.
  Value* smallest = llvm::ConstantExpr::getBitCast(constant(113 << 23), Builder::like(x->getType(), b.getFloatTy()));
  Value* tiny = b.bits(b.CreateFSub(b.from_bits(b.CreateAdd(normal, constant(1 << 23)), b.getFloatTy()), smallest));
  Value* result = b.CreateSelect(b.CreateICmpEQ(exponent, constant(0)), tiny, normal);
  result = b.CreateSelect(b.CreateICmpEQ(exponent, constant(0x7c00 << 13)), special, result);
  Value* sign = b.CreateShl(b.CreateAnd(wide, constant(0x8000)), constant(16));
  return b.from_bits(b.CreateOr(result, sign), b.getFloatTy());
}

Value* to_f16(Builder& b, Value* x) {
  if (b.tier.has_half) return b.bits(b.CreateFPTrunc(x, Builder::like(x->getType(), b.getHalfTy())));
  Value* bits = b.bits(x);
  auto constant = [&](int64_t n) { return Builder::integer(bits, n); };
  Value* magnitude = b.CreateAnd(bits, constant(0x7fffffff));
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, constant(13)), constant(1));
  Value* normal = b.CreateLShr(b.CreateAdd(b.CreateAdd(magnitude, constant(0xfff - (112 << 23))), odd), constant(13));
  // An addition shifts and rounds subnormal results.
  constexpr int64_t kShift = (127 - 15 + 23 - 10 + 1) << 23;
  Value* shifted = b.CreateFAdd(b.from_bits(magnitude, b.getFloatTy()), b.from_bits(constant(kShift), b.getFloatTy()));
  Value* tiny = b.CreateSub(b.bits(shifted), constant(kShift));
  Value* special = b.CreateSelect(b.CreateICmpUGT(magnitude, constant(0x7f800000)), constant(0x7e00), constant(0x7c00));
  Value* result = b.CreateSelect(b.CreateICmpULT(magnitude, constant(113 << 23)), tiny, normal);
  result = b.CreateSelect(b.CreateICmpUGE(magnitude, constant(143 << 23)), special, result);
  Value* sign = b.CreateAnd(b.CreateLShr(bits, constant(16)), constant(0x8000));
  return b.CreateTrunc(b.CreateOr(result, sign), Builder::like(x->getType(), b.getInt16Ty()));
}

}  // namespace

Value* cast(Builder& b, Value* x, DType from, DType to) {
  if (from == to) return x;
  if (is_half(from)) return cast(b, from == DType::bf16 ? from_bf16(b, x) : from_f16(b, x), DType::f32, to);
  if (is_half(to)) {
    Value* single = cast(b, x, from, DType::f32);
    return to == DType::bf16 ? to_bf16(b, single) : to_f16(b, single);
  }
  llvm::Type* type = Builder::like(x->getType(), b.register_type(to));
  bool has_sign = from != DType::u8 && from != DType::boolean;
  if (to == DType::boolean) return is_real(from) ? b.CreateFCmpUNE(x, Builder::real(x, 0)) : b.CreateICmpNE(x, Builder::integer(x, 0));
  if (is_real(from) && is_real(to)) return b.CreateFPCast(x, type);
  if (is_real(to)) return has_sign ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
  if (is_real(from)) {
    // ATen converts u8 through i64, so that negative numbers wrap; other small types go through i32.
    llvm::Type* between = to == DType::u8 || to == DType::i64 ? b.getInt64Ty() : b.getInt32Ty();
    return b.CreateTrunc(b.CreateFPToSI(x, Builder::like(type, between)), type);
  }
  return b.CreateIntCast(x, type, has_sign);
}

}  // namespace tenon::codegen
