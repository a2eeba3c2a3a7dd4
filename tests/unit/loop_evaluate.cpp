// The evaluator on kernels whose results can be computed by hand or in five lines.
#include "ir/loop/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/halves.h"
#include "ir/loop/parse.h"
#include "ir/loop/verify.h"
#include "support/kernel_memory.h"

namespace tenon::ir::loop {

using test::KernelMemory;

// Evaluates a kernel and returns the contents of one buffer.
std::vector<double> result(const std::string& text, const std::vector<std::vector<double>>& buffers, std::vector<int64_t> sizes,
                           size_t which, std::vector<double> scalars = {}) {
  LoopKernel kernel = parse_kernel(text);
  verify(kernel);
  KernelMemory memory = test::memory_of(kernel, buffers, std::move(sizes), std::move(scalars));
  evaluate(kernel, memory.arguments());
  std::vector<double> out;
  for (int64_t i = 0; i < memory.length(kernel, which); ++i) {
    ScalarValue n = memory.get(kernel, which, i);
    out.push_back(is_real(n.type) || is_half(n.type) ? n.real : static_cast<double>(n.integer));
  }
  return out;
}

using Values = std::vector<double>;

// A transposed matrix plus a bias, times 2, plus a scalar.
TEST(LoopEvaluate, BroadcastAndStrides) {
  Values out = result(R"(kernel k(in p0: f32, in p1: f64, out p2: f32; sizes n0 n1 n2; scalars s0) {
    parallel i0 < n0, i1 < n1 {
      %0 = load p0[i0 + i1*n2]
      %1 = load p1[i1]
      %2 = cast f32 %1
      %3 = scalar f32 s0
      %4 = add f32 %0 %2
      %5 = constant f32 2.0
      %6 = fma f32 %4 %5 %3
      store p2[i0*n1 + i1] %6
    }
  })",
                      {{1, 2, 3, 4, 5, 6}, {10, 20, 30}, Values(6, -1)}, {2, 3, 2}, 2, {0.5});
  EXPECT_EQ(out, (Values{22.5, 46.5, 70.5, 24.5, 48.5, 72.5}));
}

TEST(LoopEvaluate, NegativeStrideAndGather) {
  Values out = result(R"(kernel k(in p0: i32, in p1: i64, out p2: i32) {
    parallel i0 < 3 {
      %0 = load p1[i0*-1 + 2]
      %1 = load p0[%0*2 + 1]
      store p2[i0] %1
    }
  })",
                      {{0, 1, 2, 3, 4, 5}, {2, 0, 1}, Values(3, 0)}, {}, 2);
  EXPECT_EQ(out, (Values{3, 1, 5}));
}

TEST(LoopEvaluate, RowSoftmax) {
  Values x = {1, 2, 3, 0, 0, 0};
  Values out = result(R"(kernel softmax(in p0: f32, out p1: f32; sizes n0 n1) {
    parallel i0 < n0 {
      vector i1 < n1 {
        %0 = load p0[i0*n1 + i1]
      } max f32 %0 -> %1
      vector i2 < n1 {
        %2 = load p0[i0*n1 + i2]
        %3 = sub f32 %2 %1
        %4 = exp f32 %3
      } sum f32 %4 -> %5
      vector i3 < n1 {
        %6 = load p0[i0*n1 + i3]
        %7 = sub f32 %6 %1
        %8 = exp f32 %7
        %9 = div f32 %8 %5
        store p1[i0*n1 + i3] %9
      }
    }
  })",
                      {x, Values(6, 0)}, {2, 3}, 1);
  for (size_t i = 0; i < 6; ++i) {
    size_t row = i / 3 * 3;
    double sum = std::exp(x[row]) + std::exp(x[row + 1]) + std::exp(x[row + 2]);
    EXPECT_NEAR(out[i], std::exp(x[i]) / sum, 1e-7);
  }
}

// Concatenates two vectors: after the end of the first, the second is read.
TEST(LoopEvaluate, MaskedCat) {
  Values out = result(R"(kernel cat(in p0: bf16, in p1: bf16, out p2: bf16; sizes n0 n1) {
    parallel i0 < n0 {
      %0 = index i0
      %1 = constant i64 2
      %2 = lt i64 %0 %1
      %3 = bit_not bool %2
      %4 = load p0[i0] if %2
      %5 = sub i64 %0 %1
      %6 = load p1[%5] if %3
      %7 = cast f32 %4
      %8 = cast f32 %6
      %9 = add f32 %7 %8
      %10 = cast bf16 %9
      store p2[i0] %10
    }
  })",
                      {{1, 2}, {3, 4, 5}, Values(5, 0)}, {5, 0}, 2);
  EXPECT_EQ(out, (Values{1, 2, 3, 4, 5}));
}

TEST(LoopEvaluate, MaskedStoreKeepsOtherElements) {
  Values out = result(R"(kernel k(in p0: bool, out p1: i8) {
    parallel i0 < 4 {
      %0 = load p0[i0]
      %1 = constant i8 7
      store p1[i0] %1 if %0
    }
  })",
                      {{1, 0, 0, 1}, {1, 2, 3, 4}}, {}, 1);
  EXPECT_EQ(out, (Values{7, 2, 3, 7}));
}

TEST(LoopEvaluate, ColumnSumInsideVectorLoop) {
  Values out = result(R"(kernel columns(in p0: f32, out p1: f32; sizes n0 n1) {
    parallel i0 < 1 {
      vector i1 < n1 {
        serial i2 < n0 {
          %0 = load p0[i2*n1 + i1]
        } sum f32 %0 -> %1
        store p1[i1] %1
      }
    }
  })",
                      {{1, 2, 3, 4, 5, 6}, {0, 0, 0}}, {2, 3}, 1);
  EXPECT_EQ(out, (Values{5, 7, 9}));
}

TEST(LoopEvaluate, SumsRoundOnce) {
  Values x(10000, 0.1f);
  Values out = result(R"(kernel k(in p0: f32, out p1: f32; sizes n0) {
    parallel i0 < 1 { vector i1 < n0 { %0 = load p0[i1] } sum f32 %0 -> %1 store p1[0] %1 }
  })",
                      {x, {0}}, {10000}, 1);
  EXPECT_EQ(out[0], static_cast<float>(10000 * static_cast<double>(0.1f)));
}

// Returns the sum, product, maximum, minimum, any and all of a vector.
Values reductions(const std::string& type, const Values& values) {
  std::string text = R"(kernel k(in p0: T, out p1: T; sizes n0) {
    parallel i0 < 1 {
      vector i1 < n0 {
        %0 = load p0[i1]
        %1 = cast bool %0
      } sum T %0 -> %2, prod T %0 -> %3, max T %0 -> %4, min T %0 -> %5, any bool %1 -> %6, all bool %1 -> %7
      %8 = cast T %6
      %9 = cast T %7
      store p1[0] %2
      store p1[1] %3
      store p1[2] %4
      store p1[3] %5
      store p1[4] %8
      store p1[5] %9
    }
  })";
  for (size_t at; (at = text.find('T')) != std::string::npos;) text.replace(at, 1, type);
  return result(text, {values, Values(6, 9)}, {static_cast<int64_t>(values.size())}, 1);
}

TEST(LoopEvaluate, Reductions) {
  EXPECT_EQ(reductions("f32", {2, -3, 0.5}), (Values{-0.5, -3, 2, -3, 1, 1}));
  EXPECT_EQ(reductions("i32", {2, 0, -3}), (Values{-1, 0, 2, -3, 1, 0}));
  EXPECT_EQ(reductions("u8", {200, 100}), (Values{44, 32, 200, 100, 1, 1}));
}

TEST(LoopEvaluate, ReductionsOfEmptyRanges) {
  EXPECT_EQ(reductions("f64", {}), (Values{0, 1, -INFINITY, INFINITY, 0, 1}));
  EXPECT_EQ(reductions("i8", {}), (Values{0, 1, -128, 127, 0, 1}));
  EXPECT_EQ(reductions("u8", {}), (Values{0, 1, 0, 255, 0, 1}));
  EXPECT_EQ(reductions("i16", {})[3], 32767);
}

TEST(LoopEvaluate, NanPropagates) {
  for (const Values& values : {Values{1, NAN, 2}, Values{NAN, 1, 2}, Values{1, 2, NAN}}) {
    Values out = reductions("f32", values);
    EXPECT_TRUE(std::isnan(out[2]) && std::isnan(out[3]));
  }
}

TEST(LoopEvaluate, EmptyParallelLoop) {
  Values out =
      result("kernel k(out p0: f32; sizes n0) { parallel i0 < 3, i1 < n0 { %0 = constant f32 1.0 store p0[0] %0 } }", {{5}}, {0}, 0);
  EXPECT_EQ(out, Values{5});
}

ScalarValue op(Op which, DType type, std::vector<double> operands) {
  std::vector<ScalarValue> numbers;
  for (double operand : operands) numbers.push_back(scalar_value(type, operand));
  return compute(which, type, numbers);
}

TEST(LoopEvaluate, RealOps) {
  EXPECT_EQ(op(Op::round, DType::f32, {2.5}).real, 2);
  EXPECT_EQ(op(Op::round, DType::f64, {-3.5}).real, -4);
  EXPECT_EQ(op(Op::trunc, DType::f32, {-2.7}).real, -2);
  EXPECT_EQ(op(Op::fmod, DType::f32, {-7, 3}).real, -1);
  EXPECT_EQ(op(Op::copysign, DType::f64, {3, -0.0}).real, -3);
  EXPECT_EQ(op(Op::div, DType::f32, {1, 3}).real, static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(op(Op::exp, DType::f32, {1}).real, static_cast<double>(static_cast<float>(std::exp(1.0))));
  EXPECT_EQ(op(Op::atan2, DType::f64, {1, -1}).real, std::atan2(1, -1));
  EXPECT_EQ(op(Op::pow, DType::f64, {2, 0.5}).real, std::pow(2, 0.5));
  EXPECT_EQ(op(Op::add, DType::f32, {16777216, 1}).real, 16777216);
}

TEST(LoopEvaluate, IntegersWrap) {
  EXPECT_EQ(op(Op::add, DType::i8, {127, 1}).integer, -128);
  EXPECT_EQ(op(Op::sub, DType::u8, {0, 1}).integer, 255);
  EXPECT_EQ(op(Op::mul, DType::i16, {300, 300}).integer, 24464);
  EXPECT_EQ(op(Op::neg, DType::i32, {-2147483648.0}).integer, INT32_MIN);
  EXPECT_EQ(op(Op::abs, DType::i64, {-0x1p63}).integer, INT64_MIN);
  EXPECT_EQ(op(Op::bit_not, DType::u8, {1}).integer, 254);
  EXPECT_EQ(op(Op::bit_not, DType::boolean, {1}).integer, 0);
  EXPECT_EQ(op(Op::bit_xor, DType::i64, {5, 3}).integer, 6);
}

TEST(LoopEvaluate, ComparisonsWithNan) {
  for (Op which : {Op::eq, Op::lt, Op::le, Op::gt, Op::ge}) EXPECT_EQ(op(which, DType::f32, {NAN, NAN}).integer, 0);
  EXPECT_EQ(op(Op::ne, DType::f32, {NAN, NAN}).integer, 1);
  EXPECT_EQ(op(Op::le, DType::i8, {-1, 1}).integer, 1);
}

double cast(DType from, double number, DType to) {
  ScalarValue n = compute(Op::cast, to, {scalar_value(from, number)});
  EXPECT_EQ(n.type, to);
  return is_real(to) || is_half(to) ? n.real : static_cast<double>(n.integer);
}

TEST(LoopCasts, ToBool) {
  for (DType from : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    EXPECT_EQ(cast(from, NAN, DType::boolean), 1);
    EXPECT_EQ(cast(from, -0.0, DType::boolean), 0);
    EXPECT_EQ(cast(from, 0.25, DType::boolean), 1);
  }
  for (DType from : {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
    EXPECT_EQ(cast(from, 0, DType::boolean), 0);
    EXPECT_EQ(cast(from, 4, DType::boolean), 1);
  }
}

TEST(LoopCasts, ToIntegers) {
  for (DType from : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (DType to : {DType::i64, DType::i32, DType::i16, DType::i8}) {
      EXPECT_EQ(cast(from, -2.75, to), -2);
      EXPECT_EQ(cast(from, 2.75, to), 2);
    }
  EXPECT_EQ(cast(DType::i32, 300, DType::i8), 44);
  EXPECT_EQ(cast(DType::i64, 0x1p40 + 5, DType::i32), 5);
  EXPECT_EQ(cast(DType::i8, -1, DType::u8), 255);
  EXPECT_EQ(cast(DType::u8, 255, DType::i8), -1);
  EXPECT_EQ(cast(DType::boolean, 1, DType::i16), 1);
}

TEST(LoopCasts, ToReals) {
  EXPECT_EQ(cast(DType::i64, 16777217, DType::f32), 16777216);
  EXPECT_EQ(cast(DType::i64, 16777217, DType::f64), 16777217);
  EXPECT_EQ(cast(DType::f64, 0.1, DType::f32), static_cast<double>(0.1f));
  EXPECT_EQ(cast(DType::f64, 1e300, DType::f32), INFINITY);
  EXPECT_EQ(cast(DType::boolean, 1, DType::f32), 1);
  for (DType from : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (DType to : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      EXPECT_TRUE(std::isnan(cast(from, NAN, to)));
      EXPECT_EQ(cast(from, -INFINITY, to), -INFINITY);
      EXPECT_TRUE(std::signbit(cast(from, -0.0, to)));
      EXPECT_EQ(cast(from, 1.5, to), 1.5);
    }
}

TEST(LoopCasts, TiesOfHalves) {
  EXPECT_EQ(cast(DType::f32, 257, DType::bf16), 256);
  EXPECT_EQ(cast(DType::f32, 259, DType::bf16), 260);
  EXPECT_EQ(cast(DType::f32, 2049, DType::f16), 2048);
  EXPECT_EQ(cast(DType::f32, 2051, DType::f16), 2052);
  EXPECT_EQ(cast(DType::f32, 65519, DType::f16), 65504);
  EXPECT_EQ(cast(DType::f32, 65520, DType::f16), INFINITY);
  EXPECT_EQ(cast(DType::f32, 0x1p-25, DType::f16), 0);
  EXPECT_EQ(cast(DType::f32, 0x1.8p-25, DType::f16), 0x1p-24);
  EXPECT_EQ(cast(DType::f32, 3.4e38, DType::bf16), INFINITY);
  EXPECT_EQ(cast(DType::i32, 257, DType::bf16), 256);
  // The conversion rounds to f32 first, where the value becomes a tie.
  EXPECT_EQ(cast(DType::f64, 257 + 1e-9, DType::bf16), 256);
}

// Every 16-bit value survives a round trip, and ties round to even.
template <class Widen, class Narrow>
void check_all(Widen widen, Narrow narrow, uint16_t infinity) {
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    float low = widen(static_cast<uint16_t>(bits)), high = widen(static_cast<uint16_t>(bits + 1));
    EXPECT_EQ(narrow(low), bits);
    EXPECT_EQ(narrow(-low), bits | 0x8000);
    if (bits + 1 == infinity) continue;
    float middle = low + (high - low) / 2;
    EXPECT_EQ(narrow(middle), bits + (bits & 1));
    EXPECT_EQ(narrow(std::nextafter(middle, low)), bits);
    EXPECT_EQ(narrow(std::nextafter(middle, high)), bits + 1);
  }
  for (uint32_t bits = infinity + 1u; bits < 0x8000; ++bits)
    EXPECT_TRUE(std::isnan(widen(static_cast<uint16_t>(bits))) && std::isnan(widen(narrow(widen(static_cast<uint16_t>(bits))))));
}

TEST(LoopCasts, AllHalves) {
  check_all(bf16_to_float, float_to_bf16, 0x7F80);
  check_all(f16_to_float, float_to_f16, 0x7C00);
}

}  // namespace tenon::ir::loop
