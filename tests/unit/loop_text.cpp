// The text form of loops: kernels and constants survive it, equal kernels have equal keys, and errors in damaged text name the
// position.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "ir/loop/parse.h"
#include "ir/loop/print.h"
#include "ir/loop/verify.h"

namespace tenon::ir::loop {

const char* const kNorm = R"(kernel residual_norm(in p0: f32, in p1: bf16, out p2: f32, out p3: bool; sizes n0 n1 n2; scalars s0) {
  parallel i0 < n0, i1 < 4 {
    vector i2 < n1 {
      %0 = load p0[i0*n2 + i2 + 3]
      %1 = load p1[i2*-1 + n1]
      %2 = cast f32 %1
      %3 = add f32 %0 %2
      %4 = lt f32 %0 %3
    } sum f32 %3 -> %5, any bool %4 -> %6
    %7 = constant f32 0.1
    %8 = scalar f32 s0
    %9 = fma f32 %5 %7 %8
    serial i3 < n1 {
      %10 = index i3
      %11 = load p0[0]
      %12 = mul f32 %11 %9
      store p2[i0*n2 + %10*4 + i1] %12 if %6
    }
    store p3[i0*4 + i1] %6
  }
}
)";

TEST(LoopText, RoundTrip) {
  LoopKernel kernel = parse_kernel(kNorm);
  verify(kernel);
  EXPECT_EQ(print(kernel), kNorm);
  EXPECT_EQ(kernel.registers, 13);
  EXPECT_EQ(kernel.variables, 4);
}

TEST(LoopText, EqualKernelsHaveEqualKeys) {
  LoopKernel a = parse_kernel("kernel a(in p0: f32, out p1: f32) { parallel i0 < 4 { %0 = load p0[i0] %1 = neg f32 %0 store p1[i0] %1 } }");
  LoopKernel b = parse_kernel("kernel b(in p0: f32, out p1: f32) { parallel i9 < 4 { %7 = load p0[i9] %3 = neg f32 %7 store p1[i9] %3 } }");
  EXPECT_EQ(key(a), key(b));
  EXPECT_NE(print(a), print(b));
  std::get<Compute>(b.outer.body[1].what).op = Op::abs;
  EXPECT_NE(key(a), key(b));
}

// Keys do not depend on the ids in the data, only on the order in which they appear.
TEST(LoopText, KeysDoNotDependOnIds) {
  LoopKernel kernel = parse_kernel("kernel k(in p0: f32, out p1: f32) { parallel i0 < 4 { %0 = load p0[i0] store p1[i0] %0 } }");
  std::string before = key(kernel);
  std::get<Load>(kernel.outer.body[0].what).result = 41;
  std::get<Store>(kernel.outer.body[1].what).value = 41;
  kernel.registers = 42;
  verify(kernel);
  EXPECT_EQ(key(kernel), before);
}

LoopKernel with_constant(Constant constant) {
  LoopKernel kernel;
  kernel.buffers = {{constant.type, true}};
  kernel.registers = kernel.variables = 1;
  constant.result = 0;
  Store store{0, {}, 0, kNoReg};
  kernel.outer = {Loop::Kind::parallel, {{0, LoopSize::constant(1)}}, {{constant}, {store}}, {}};
  return kernel;
}

template <class Real, class Bits>
void survive(DType type) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    auto bits = static_cast<Bits>(random());
    Real number;
    std::memcpy(&number, &bits, sizeof number);
    if (std::isnan(number)) continue;
    LoopKernel again = parse_kernel(print(with_constant({kNoReg, type, static_cast<double>(number)})));
    auto got = static_cast<Real>(std::get<double>(std::get<Constant>(again.outer.body[0].what).value));
    EXPECT_EQ(std::memcmp(&got, &number, sizeof number), 0) << number;
  }
}

TEST(LoopText, EveryRealSurvives) {
  survive<double, uint64_t>(DType::f64);
  survive<float, uint32_t>(DType::f32);
}

TEST(LoopText, SpecialConstantsSurvive) {
  for (double number : {-0.0, static_cast<double>(INFINITY), -static_cast<double>(INFINITY), static_cast<double>(NAN), 1e300, 0.1})
    for (DType type : {DType::f32, DType::f64}) {
      std::string text = print(with_constant({kNoReg, type, number}));
      EXPECT_EQ(print(parse_kernel(text)), text);
    }
  for (int64_t number : {INT64_MIN, INT64_MAX, int64_t{0}}) {
    LoopKernel again = parse_kernel(print(with_constant({kNoReg, DType::i64, number})));
    EXPECT_EQ(std::get<int64_t>(std::get<Constant>(again.outer.body[0].what).value), number);
  }
}

TEST(LoopText, ConstantsThatRoundToTheSameValueAreEqual) {
  EXPECT_EQ(key(with_constant({kNoReg, DType::f32, 0.1})), key(with_constant({kNoReg, DType::f32, static_cast<double>(0.1f)})));
  EXPECT_NE(key(with_constant({kNoReg, DType::f64, 0.1})), key(with_constant({kNoReg, DType::f64, static_cast<double>(0.1f)})));
}

std::string parse_error(const std::string& text) {
  try {
    parse_kernel(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(LoopText, ErrorsNameThePosition) {
  EXPECT_NE(parse_error("kernel k() {\n  parallel i0 < 4 {\n    %0 = ad f32 %1\n  }\n}\n").find("line 3, column 12: expected an op"),
            std::string::npos);
  EXPECT_NE(parse_error("kernel k(in p1: f32)").find("the next buffer's number"), std::string::npos);
  EXPECT_NE(parse_error("kernel k(in p0: f33)").find("an element type"), std::string::npos);
  EXPECT_NE(parse_error("kernel k() { parallel i0 < 4 { %0 = neg f32 %0 } }").find("defined above"), std::string::npos);
  EXPECT_NE(parse_error("kernel k() { parallel i0 < 4 { %0 = index i0 %0 = index i0 } }").find("not yet defined"), std::string::npos);
  EXPECT_NE(parse_error("kernel k() { parallel i0 < 4 { } mean f32 %0 -> %1 }").find("a reduction"), std::string::npos);
}

// Text with removed, repeated or changed characters is parsed or rejected, never anything else.
TEST(LoopText, DamagedTextIsRejectedOrParsed) {
  std::string good = kNorm;
  std::mt19937 random(3);
  size_t rejected = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    size_t at = random() % bad.size();
    switch (random() % 3) {
      case 0:
        bad.erase(at, 1 + random() % 4);
        break;
      case 1:
        bad[at] = static_cast<char>(32 + random() % 95);
        break;
      default:
        bad.insert(at, bad.substr(random() % bad.size(), 3));
    }
    try {
      LoopKernel kernel = parse_kernel(bad);
      EXPECT_EQ(print(parse_kernel(print(kernel))), print(kernel));
      verify(kernel);
    } catch (const Error&) {
      ++rejected;
    }
  }
  EXPECT_GT(rejected, 7000u);
}

}  // namespace tenon::ir::loop
