// The functions that dominate the run time of models, computed in f32. Coefficients: tools/fit_math.py.
// tests/codegen measures the error bounds over all f32 numbers.
#include "codegen/math_f32.h"

#include <llvm/IR/IntrinsicsX86.h>

#include "codegen/math_constants.h"

namespace tenon::codegen {
namespace {

namespace Intrinsic = llvm::Intrinsic;

constexpr double kLn2High = 0.693145751953125,
                 kLn2Low = 1.4286068203094173e-06;  // The high half has 15 bits, so that integer multiples are exact.

// Computes x·2^n for an integer n from -151 to 128, in two steps, since 2^n itself may not fit in f32.
Value* scale(Builder& b, Value* x, Value* n) {
  if (Builder::lanes_of(x) == 16 && b.tier.lanes == 16)
    return b.CreateIntrinsic(Intrinsic::x86_avx512_mask_scalef_ps_512, {}, {x, n, x, b.getInt16(0xffff), b.getInt32(4)});
  Value* integer = b.CreateFPToSI(n, Builder::like(x->getType(), b.getInt32Ty()));
  Value* first = b.CreateAShr(integer, Builder::integer(integer, 1));
  auto power = [&](Value* k) {
    return b.from_bits(b.CreateShl(b.CreateAdd(k, Builder::integer(k, 127)), Builder::integer(k, 23)), b.getFloatTy());
  };
  return b.CreateFMul(b.CreateFMul(x, power(first)), power(b.CreateSub(integer, first)));
}

// Computes e^r - 1 = r + r²·P(r) for small r.
Value* exp_tail(Builder& b, Value* r) {
  Value* p = b.polynomial(r, {0.4999999403953552, 0.1666652113199234, 0.04166828840970993, 0.008368703536689281, 0.0013818938750773668});
  return b.mad(b.CreateFMul(r, r), p, r);
}

}  // namespace

// Computes 2^n·e^r. Underflow is handled by a select, because CPUs take a hundred cycles to round a result to 0.
Value* exp_f32(Builder& b, Value* x) {
  Value* underflows = b.CreateFCmpOLT(x, Builder::real(x, -104));
  Value* inside = b.CreateSelect(underflows, Builder::real(x, 0), b.min_or_second(Builder::real(x, 88.8), x));
  Value* n = b.call(Intrinsic::roundeven, {b.CreateFMul(inside, Builder::real(x, kLog2E))});
  Value* r = b.mad(n, Builder::real(x, -kLn2High), inside);
  r = b.mad(n, Builder::real(x, -kLn2Low), r);
  return b.CreateSelect(underflows, Builder::real(x, 0), scale(b, b.CreateFAdd(exp_tail(b, r), Builder::real(x, 1)), n));
}

Value* exp2_f32(Builder& b, Value* x) {
  Value* underflows = b.CreateFCmpOLT(x, Builder::real(x, -151));
  Value* inside = b.CreateSelect(underflows, Builder::real(x, 0), b.min_or_second(Builder::real(x, 128.5), x));
  Value* n = b.call(Intrinsic::roundeven, {inside});
  Value* r = b.CreateFSub(inside, n);
  Value* p = b.polynomial(r, {0.6931471824645996, 0.24022650718688965, 0.055504050105810165, 0.009618086740374565, 0.0013337951386347413,
                              0.00015452165098395199, 1.4329708392324392e-05});
  return b.CreateSelect(underflows, Builder::real(x, 0), scale(b, b.mad(r, p, Builder::real(x, 1)), n));
}

// Splits x = 2^n·(1+f) with 1+f around 1; log(1+f) = f - f²/2 + f³·P(f).
Value* log_f32(Builder& b, Value* x) {
  constexpr int64_t kRootHalf = 0x3f3504f3;  // Bits of √½.
  Value* is_tiny = b.CreateFCmpOLT(x, Builder::real(x, 0x1p-126));
  Value* normal = b.CreateSelect(is_tiny, b.CreateFMul(x, Builder::real(x, 0x1p23)), x);
  Value* shifted = b.CreateSub(b.bits(normal), Builder::integer(b.bits(normal), kRootHalf));
  Value* exponent = b.CreateAShr(shifted, Builder::integer(shifted, 23));
  Value* mantissa = b.CreateAdd(b.CreateAnd(shifted, Builder::integer(shifted, 0x7fffff)), Builder::integer(shifted, kRootHalf));
  Value* n = b.CreateSIToFP(exponent, x->getType());
  n = b.CreateFSub(n, b.CreateSelect(is_tiny, Builder::real(x, 23), Builder::real(x, 0)));
  Value* f = b.CreateFSub(b.from_bits(mantissa, b.getFloatTy()), Builder::real(x, 1));
  Value* square = b.CreateFMul(f, f);
  Value* p = b.polynomial(f, {0.3333331346511841, -0.25000008940696716, 0.2000207155942917, -0.16667988896369934, 0.14220358431339264,
                              -0.12406233698129654, 0.11883548647165298, -0.11670099198818207, 0.06749271601438522});
  Value* tail = b.mad(n, Builder::real(x, kLn2Low), b.CreateFMul(b.CreateFMul(f, square), p));
  tail = b.mad(square, Builder::real(x, -0.5), tail);
  Value* result = b.mad(n, Builder::real(x, kLn2High), b.CreateFAdd(f, tail));

  Value* positive = b.CreateSelect(b.CreateFCmpOLT(x, Builder::real(x, kInfinity)), result, x);
  Value* others = b.CreateSelect(b.CreateFCmpOEQ(x, Builder::real(x, 0)), Builder::real(x, -kInfinity), Builder::real(x, kNaN));
  return b.CreateSelect(b.CreateFCmpOGT(x, Builder::real(x, 0)), positive, others);
}

// Uses a polynomial below 0.6, and 1 - 2/(e^2x + 1) above.
Value* tanh_f32(Builder& b, Value* x) {
  Value* size = b.call(Intrinsic::fabs, {x});
  Value* square = b.CreateFMul(x, x);
  Value* p =
      b.polynomial(square, {-0.33333298563957214, 0.13331936299800873, -0.05378471687436104, 0.02079862542450428, -0.005897966679185629});
  Value* small = b.mad(b.CreateFMul(size, square), p, size);
  Value* e = exp_f32(b, b.CreateFAdd(size, size));
  Value* large = b.CreateFSub(Builder::real(x, 1), b.CreateFDiv(Builder::real(x, 2), b.CreateFAdd(e, Builder::real(x, 1))));
  Value* result = b.CreateSelect(b.CreateFCmpOLT(size, Builder::real(x, 0.6)), small, large);
  return b.call(Intrinsic::copysign, {result, x});
}

// Uses a polynomial below 1, and 1 - e^(-x - x·Q(x)) above.
Value* erf_f32(Builder& b, Value* x) {
  Value* size = b.call(Intrinsic::fabs, {x});
  Value* square = b.CreateFMul(x, x);
  Value* p = b.polynomial(square, {0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026,
                                   0.005187162198126316, -0.0007997853099368513, 7.806903158780187e-05});
  Value* small = b.mad(size, p, size);
  Value* inside = b.min_or_second(Builder::real(x, 3.95), size);  // The function is 1 for larger arguments.
  Value* q = b.polynomial(inside, {0.1285848468542099, 0.6354754567146301, 0.10554735362529755, -0.022968241944909096,
                                   0.0031085091177374125, -0.00011303798237349838, -3.3323431125609204e-05, 3.946513061237056e-06});
  Value* large = b.CreateFSub(Builder::real(x, 1), exp_f32(b, b.CreateFNeg(b.mad(inside, q, inside))));
  Value* result = b.CreateSelect(b.CreateFCmpOLT(size, Builder::real(x, 1)), small, large);
  return b.call(Intrinsic::copysign, {result, x});
}

}  // namespace tenon::codegen
