// Functions of f32 computed in f64: to about 36 bits, which simple formulas reach, and then rounded once.
// So the error is below 0.51 ulp, and results are equal in all tiers except for one case in a hundred
// thousand. Coefficients: tools/fit_math.py.
#include "codegen/math_wide.h"

#include <llvm/IR/MDBuilder.h>

#include "base/error.h"
#include "codegen/math_calls.h"
#include "codegen/math_constants.h"

namespace tenon::codegen {
namespace {

using ir::loop::Op;
namespace Intrinsic = llvm::Intrinsic;

constexpr double kPi = 3.141592653589793;
constexpr double kLn2 = 0.6931471805599453;
// Adding this constant to a small number leaves the rounded integer in the low bits.
constexpr double kRounder = 0x1.8p52;

// The formulas. All values are f64 and have the same lane count.
class Wide {
 public:
  explicit Wide(Builder& b) : b(b) {}

  Value* exp(Value* x) { return scaled(x, 0); }
  Value* expm1(Value* x) { return scaled(x, -1); }

  // Computes 2^x for an inexact x.
  Value* exp2(Value* x) {
    Value* inside = clamp(x, -300, 300);
    Value* shifted = b.CreateFAdd(inside, real(x, kRounder));
    Value* r = b.CreateFMul(b.CreateFSub(inside, b.CreateFSub(shifted, real(x, kRounder))), real(x, kLn2));
    return scale(tail(r), shifted, 0);
  }

  // Computes log(x)·factor; `of_two` is log(2)·factor.
  Value* log(Value* x, double factor = 1, double of_two = kLn2) {
    auto [n, f] = split(x);
    return with_special_values(x, b.mad(n, real(x, of_two), b.CreateFMul(log_around_one(f), real(x, factor))));
  }

  Value* log1p(Value* x) {
    Value* y = b.CreateFAdd(x, real(x, 1));
    auto [n, f] = split(y);
    Value* is_small = b.CreateFCmpOLT(abs(x), real(x, 0.25));  // The sum 1+x would lose bits of x in this range.
    n = b.CreateSelect(is_small, real(x, 0), n);
    Value* l = log_around_one(b.CreateSelect(is_small, x, f));
    return b.CreateSelect(is_small, l, with_special_values(y, b.mad(n, real(x, kLn2), l)));
  }

  // Trigonometric functions for |x| < 2^20.
  enum class Wave { sine, cosine, tangent };
  Value* wave(Wave which, Value* x) {
    constexpr double kHigh = 1.5707963267341256,
                     kLow = 6.077100506506192e-11;  // The two halves of π/2; the first has 33 bits, so that integer multiples are exact.
    Value* shifted = b.CreateFAdd(b.CreateFMul(x, real(x, 2 / kPi)), real(x, kRounder));
    Value* n = b.CreateFSub(shifted, real(x, kRounder));
    Value* r = b.mad(n, real(x, -kHigh), x);
    r = b.mad(n, real(x, -kLow), r);
    Value* z = b.CreateFMul(r, r);
    Value* sine = odd(r, z, {-0.16666666640588165, 0.00833332928052372, -0.00019839304415552973, 2.718046474164672e-06});
    Value* p = b.polynomial(z, {0.041666666619106466, -0.0013888883467235733, 2.479945154666942e-05, -2.7205046134438876e-07});
    Value* cosine = b.mad(b.CreateFMul(z, z), p, b.mad(z, real(x, -0.5), real(x, 1)));

    Value* quadrant = b.bits(shifted);
    auto has_bit = [&](Value* q, int64_t bit) { return b.CreateICmpNE(b.CreateAnd(q, Builder::integer(q, bit)), Builder::integer(q, 0)); };
    Value* swap = has_bit(quadrant, 1);
    if (which == Wave::tangent) return b.CreateFDiv(b.CreateSelect(swap, b.CreateFNeg(cosine), sine), b.CreateSelect(swap, sine, cosine));
    if (which == Wave::cosine) quadrant = b.CreateAdd(quadrant, Builder::integer(quadrant, 1));
    Value* taken = which == Wave::sine ? b.CreateSelect(swap, cosine, sine) : b.CreateSelect(swap, sine, cosine);
    return b.CreateSelect(has_bit(quadrant, 2), b.CreateFNeg(taken), taken);
  }

  Value* sinh(Value* x) {
    Value* q = expm1(abs(x));
    Value* sum = b.CreateFAdd(q, b.CreateFDiv(q, b.CreateFAdd(q, real(x, 1))));
    return signed_as(x, b.CreateFMul(sum, real(x, 0.5)));
  }
  Value* cosh(Value* x) {
    Value* e = exp(abs(x));
    return b.CreateFMul(b.CreateFAdd(e, b.CreateFDiv(real(x, 1), e)), real(x, 0.5));
  }
  Value* asinh(Value* x) {
    Value* a = abs(x);
    Value* square = b.CreateFMul(a, a);
    Value* root = b.call(Intrinsic::sqrt, {b.CreateFAdd(square, real(x, 1))});
    Value* f = b.CreateFAdd(a, b.CreateFDiv(square, b.CreateFAdd(root, real(x, 1))));
    return signed_as(x, b.CreateSelect(b.CreateFCmpOLT(a, real(x, kInfinity)), log1p(f), a));
  }
  Value* acosh(Value* x) {
    Value* f = b.CreateFSub(x, real(x, 1));
    Value* root = b.call(Intrinsic::sqrt, {b.CreateFMul(f, b.CreateFAdd(x, real(x, 1)))});
    return b.CreateSelect(b.CreateFCmpOGE(x, real(x, 1)), log1p(b.CreateFAdd(f, root)), real(x, kNaN));
  }
  Value* atanh(Value* x) {
    Value* a = abs(x);
    Value* ratio = b.CreateFDiv(b.CreateFAdd(a, a), b.CreateFSub(real(x, 1), a));
    return signed_as(x, b.CreateFMul(log1p(ratio), real(x, 0.5)));
  }

  // Arguments above 0.5 are reduced to asin(√((1-x)/2)).
  Value* asin(Value* x) {
    auto [is_large, p] = arc(x);
    return signed_as(x, b.CreateSelect(is_large, b.mad(p, real(x, -2), real(x, kPi / 2)), p));
  }
  Value* acos(Value* x) {
    auto [is_large, p] = arc(x);
    Value* is_negative = b.CreateFCmpOLT(x, real(x, 0));
    Value* twice = b.CreateFAdd(p, p);
    Value* large = b.CreateSelect(is_negative, b.CreateFSub(real(x, kPi), twice), twice);
    return b.CreateSelect(is_large, large, b.CreateFSub(real(x, kPi / 2), signed_as(x, p)));
  }

  Value* atan(Value* x) { return signed_as(x, atan_of_positive(abs(x))); }
  Value* atan2(Value* y, Value* x) {
    Value *above = abs(y), *beside = abs(x);
    Value* same = b.CreateSelect(b.CreateFCmpOEQ(above, real(x, 0)), real(x, 0), real(x, 1));  // Covers both zero and both infinite.
    Value* angle = atan_of_positive(b.CreateSelect(b.CreateFCmpOEQ(above, beside), same, b.CreateFDiv(above, beside)));
    Value* is_left = b.CreateICmpSLT(b.bits(x), Builder::integer(b.bits(x), 0));  // Includes -0.
    return signed_as(y, b.CreateSelect(is_left, b.CreateFSub(real(x, kPi), angle), angle));
  }

  Value* pow(Value* x, Value* y) {
    Value* size = abs(x);
    Value* l = log(size, kLog2E, 1);
    Value* is_one = b.CreateOr(b.CreateFCmpOEQ(y, real(x, 0)), b.CreateFCmpOEQ(size, real(x, 1)));  // Avoids 0·∞.
    Value* result = exp2(b.CreateSelect(is_one, real(x, 0), b.CreateFMul(y, l)));
    auto is_whole = [&](Value* v) { return b.CreateFCmpOEQ(b.call(Intrinsic::floor, {v}), v); };
    Value* is_odd = b.CreateAnd(is_whole(y), b.CreateNot(is_whole(b.CreateFMul(y, real(x, 0.5)))));
    result = b.CreateSelect(is_odd, signed_as(x, result), result);
    Value* is_negative = b.CreateAnd(b.CreateFCmpOLT(x, real(x, 0)), b.CreateFCmpOGT(x, real(x, -kInfinity)));
    Value* y_is_number = b.CreateFCmpORD(y, y);
    result = b.CreateSelect(b.CreateAnd(is_negative, b.CreateNot(is_whole(y))), real(x, kNaN), result);
    // The power NaN gives 1 for the base 1, and NaN for any other base.
    return b.CreateSelect(b.CreateOr(y_is_number, b.CreateFCmpOEQ(x, real(x, 1))), result, y);
  }

 private:
  static llvm::Constant* real(Value* x, double constant) { return Builder::real(x, constant); }
  Value* abs(Value* x) { return b.call(Intrinsic::fabs, {x}); }
  Value* signed_as(Value* x, Value* size) { return b.call(Intrinsic::copysign, {size, x}); }
  Value* clamp(Value* x, double low, double high) { return b.min_or_second(real(x, high), b.max_or_second(real(x, low), x)); }

  // Computes x + x³·P(x²) as a product, so that -0 stays -0.
  Value* odd(Value* x, Value* square, llvm::ArrayRef<double> p) {
    return b.CreateFMul(x, b.mad(square, b.polynomial(square, p), real(x, 1)));
  }

  // Computes e^r - 1 for small r.
  Value* tail(Value* r) {
    Value* p = b.polynomial(r, {0.5000000000433671, 0.16666666785855275, 0.04166666437790064, 0.008333281396195349, 0.0013889199587704707,
                                0.00019909209191406303, 2.4707922764992495e-05});
    return b.mad(b.CreateFMul(r, r), p, r);
  }
  // Computes 2^n·(1 + t) + plus; kRounder was added to the integer n.
  Value* scale(Value* t, Value* shifted, double plus) {
    Value* n = b.bits(shifted);
    Value* power = b.CreateAdd(b.CreateShl(n, Builder::integer(n, 52)), Builder::integer(n, int64_t{1023} << 52));
    Value* s = b.from_bits(power, b.getDoubleTy());
    return b.mad(s, t, plus == 0 ? s : b.CreateFAdd(s, real(t, plus)));
  }
  Value* scaled(Value* x, double plus) {
    constexpr double kHigh = 0.6931471803691238, kLow = 1.9082149292705877e-10;  // The two halves of ln 2; the first has 32 bits.
    Value* inside = clamp(x, -200, 200);
    Value* shifted = b.CreateFAdd(b.CreateFMul(inside, real(x, kLog2E)), real(x, kRounder));
    Value* n = b.CreateFSub(shifted, real(x, kRounder));
    Value* r = b.mad(n, real(x, -kHigh), inside);
    Value* result = scale(tail(b.mad(n, real(x, -kLow), r)), shifted, plus);
    return plus == 0 ? result : b.CreateSelect(b.CreateFCmpOEQ(x, real(x, 0)), x, result);  // Preserves -0.
  }

  // Splits x = 2^n·(1+f) with 1+f from √½ to √2.
  std::pair<Value*, Value*> split(Value* x) {
    constexpr int64_t kRootHalf = 0x3fe6a09e667f3bcd;
    Value* bits = b.bits(x);
    auto constant = [&](int64_t n) { return Builder::integer(bits, n); };
    Value* shifted = b.CreateAdd(
        bits, constant((int64_t{1024} << 52) - kRootHalf));  // The bias makes exponents positive, so that no sign bit is shifted in.
    Value* exponent = b.CreateOr(b.CreateLShr(shifted, constant(52)), constant(0x4330000000000000));
    Value* n = b.CreateFSub(b.from_bits(exponent, b.getDoubleTy()), real(x, 0x1p52 + 1024));
    Value* mantissa = b.CreateAdd(b.CreateAnd(shifted, constant((int64_t{1} << 52) - 1)), constant(kRootHalf));
    return {n, b.CreateFSub(b.from_bits(mantissa, b.getDoubleTy()), real(x, 1))};
  }
  // Computes log(1+f) from s = f/(2+f).
  Value* log_around_one(Value* f) {
    Value* s = b.CreateFDiv(f, b.CreateFAdd(f, real(f, 2)));
    Value* l =
        odd(s, b.CreateFMul(s, s), {0.33333333337910026, 0.1999999780738984, 0.142860549805557, 0.11088076488141063, 0.09792347747086057});
    return b.CreateFAdd(l, l);
  }
  Value* with_special_values(Value* x, Value* log) {
    Value* positive = b.CreateSelect(b.CreateFCmpOLT(x, real(x, kInfinity)), log, x);
    Value* others = b.CreateSelect(b.CreateFCmpOEQ(x, real(x, 0)), real(x, -kInfinity), real(x, kNaN));
    return b.CreateSelect(b.CreateFCmpOGT(x, real(x, 0)), positive, others);
  }

  std::pair<Value*, Value*> arc(Value* x) {
    Value* a = abs(x);
    Value* is_large = b.CreateFCmpOGT(a, real(x, 0.5));
    Value* z = b.CreateSelect(is_large, b.CreateFMul(b.CreateFSub(real(x, 1), a), real(x, 0.5)), b.CreateFMul(a, a));
    Value* y = b.CreateSelect(is_large, b.call(Intrinsic::sqrt, {z}), a);
    return {is_large, odd(y, z,
                          {0.16666666627334595, 0.07500004981698905, 0.04464070792739335, 0.030426521656893187, 0.021865726838522285,
                           0.020646362340180455, 0.001979070369405758, 0.032911826282840784})};
  }
  // Reduces the argument to -1/x above tan(3π/8), and to (x-1)/(x+1) above tan(π/8).
  Value* atan_of_positive(Value* a) {
    Value* is_huge = b.CreateFCmpOGT(a, real(a, 2.414213562373095));
    Value* is_large = b.CreateFCmpOGT(a, real(a, 0.4142135623730951));
    auto pick = [&](Value* huge, Value* large, Value* small) {
      return b.CreateSelect(is_huge, huge, b.CreateSelect(is_large, large, small));
    };
    Value* above = pick(real(a, -1), b.CreateFSub(a, real(a, 1)), a);
    Value* below = pick(a, b.CreateFAdd(a, real(a, 1)), real(a, 1));
    Value* t = b.CreateFDiv(above, below);
    Value* rest = odd(t, b.CreateFMul(t, t),
                      {-0.3333333329554957, 0.19999994303829274, -0.14285422679438403, 0.11103985915299097, -0.08996668595618575,
                       0.069904168042709, -0.03790978772094687});
    return b.CreateFAdd(pick(real(a, kPi / 2), real(a, kPi / 4), real(a, 0)), rest);
  }

  Builder& b;
};

// Angles from 2^20 on need hundreds of bits of π; libm computes all lanes of such vectors.
Value* with_large_angles(Builder& b, Op op, Value* x, Value* result) {
  Value* is_large = b.CreateFCmpUGE(b.call(Intrinsic::fabs, {x}), Builder::real(x, 0x1p20));
  int lanes = Builder::lanes_of(x);
  if (lanes > 1) {
    Value* bits = b.CreateBitCast(is_large, b.getIntNTy(static_cast<unsigned>(lanes)));
    is_large = b.CreateICmpNE(bits, Builder::integer(bits, 0));
  }
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* rare = llvm::BasicBlock::Create(b.getContext(), "large_angle", before->getParent());
  auto* after = llvm::BasicBlock::Create(b.getContext(), "go_on", before->getParent());
  b.CreateCondBr(is_large, rare, after, llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(rare);
  Value* exact = call_lanes(b, op, ir::DType::f32, {x});
  llvm::BasicBlock* rare_end = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  llvm::PHINode* phi = b.CreatePHI(result->getType(), 2);
  phi->addIncoming(result, before);
  phi->addIncoming(exact, rare_end);
  return phi;
}

Value* formula(Wide w, Op op, llvm::ArrayRef<Value*> x) {
  switch (op) {
    case Op::expm1:
      return w.expm1(x[0]);
    case Op::log2:
      return w.log(x[0], kLog2E, 1);
    case Op::log10:
      return w.log(x[0], 0.4342944819032518, 0.3010299956639812);
    case Op::log1p:
      return w.log1p(x[0]);
    case Op::sin:
      return w.wave(Wide::Wave::sine, x[0]);
    case Op::cos:
      return w.wave(Wide::Wave::cosine, x[0]);
    case Op::tan:
      return w.wave(Wide::Wave::tangent, x[0]);
    case Op::asin:
      return w.asin(x[0]);
    case Op::acos:
      return w.acos(x[0]);
    case Op::atan:
      return w.atan(x[0]);
    case Op::atan2:
      return w.atan2(x[0], x[1]);
    case Op::sinh:
      return w.sinh(x[0]);
    case Op::cosh:
      return w.cosh(x[0]);
    case Op::asinh:
      return w.asinh(x[0]);
    case Op::acosh:
      return w.acosh(x[0]);
    case Op::atanh:
      return w.atanh(x[0]);
    case Op::pow:
      return w.pow(x[0], x[1]);
    default:
      return nullptr;
  }
}

}  // namespace

Value* wide_math(Builder& b, Op op, llvm::ArrayRef<Value*> operands) {
  llvm::SmallVector<Value*, 2> wide;
  for (Value* x : operands) wide.push_back(b.CreateFPExt(x, Builder::like(x->getType(), b.getDoubleTy())));
  Value* result = b.CreateFPTrunc(formula(Wide(b), op, wide), operands[0]->getType());
  bool is_wave = op == Op::sin || op == Op::cos || op == Op::tan;
  return is_wave ? with_large_angles(b, op, operands[0], result) : result;
}

}  // namespace tenon::codegen
