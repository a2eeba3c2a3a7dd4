// Corner cases that random kernels seldom contain.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/halves.h"
#include "codegen/run_tiers.h"

namespace tenon::test {
namespace {

constexpr double kInfinity = HUGE_VAL;

// Every byte except 0 is true, and true is stored as 1.
TEST(SmallKernels, BoolsOfAnyByte) {
  const char* text = R"(kernel bools(in p0: bool, out p1: bool, out p2: i32; sizes n0) {
  parallel i0 < n0 {
    %0 = load p0[i0]
    store p1[i0] %0
    %1 = cast i32 %0
    store p2[i0] %1
  }
})";
  auto memory = memory_for(text, {std::vector<double>(256), std::vector<double>(256), std::vector<double>(256)}, {256});
  for (int i = 0; i < 256; ++i) memory.buffers[0].data()[i] = static_cast<std::byte>(i);
  expect_right(text, memory, {});
}

TEST(SmallKernels, ComparisonsWithNan) {
  std::string text = "kernel compares(in p0: f32, in p1: f32";
  const char* ops[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (int i = 0; i < 6; ++i) text += ", out p" + std::to_string(i + 2) + ": bool";
  text += "; sizes n0) {\n parallel i0 < n0 {\n  %0 = load p0[i0]\n  %1 = load p1[i0]\n";
  for (int i = 0; i < 6; ++i)
    text += "  %" + std::to_string(i + 2) + " = " + ops[i] + " f32 %0 %1\n  store p" + std::to_string(i + 2) + "[i0] %" +
            std::to_string(i + 2) + "\n";
  text += " }\n}";
  std::vector<double> values = {0.0, -0.0, 1, -1, kInfinity, -kInfinity, NAN, 1e-40}, a, b;
  for (double x : values)
    for (double y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  std::vector<double> out(a.size());
  expect_right(text.c_str(), memory_for(text.c_str(), {a, b, out, out, out, out, out, out}, {static_cast<int64_t>(a.size())}), {});
}

// A product that is summed may be fused into the sum, unless it has another use.
TEST(SmallKernels, SummedProductThatIsAlsoStored) {
  const char* text = R"(kernel dot(in p0: f32, out p1: f32, out p2: f32; sizes n0) {
  parallel i0 < 1 {
    vector i1 < n0 {
      %0 = load p0[i1]
      %1 = mul f32 %0 %0
      store p1[i1] %1
    } sum f32 %1 -> %2
    store p2[0] %2
  }
})";
  expect_right(text, memory_for(text, {numbers(77, 1), std::vector<double>(77), {0}}, {77}), {0, 0, 2e-5});
}

// Strides that are known only at run time: 0, 1, larger and negative ones.
TEST(SmallKernels, StridesOfTheRun) {
  const char* text = R"(kernel strided(in p0: i16, out p1: i16; sizes n0 n1 n2) {
  parallel i0 < 2 {
    vector i1 < n0 {
      %0 = load p0[i0*3 + i1*n1 + n2]
      store p1[i0*n0 + i1] %0
    }
  }
})";
  for (int64_t stride : {-2, -1, 0, 1, 3}) {
    std::vector<double> x;
    for (int i = 0; i < 110; ++i) x.push_back(i);
    expect_right(text, memory_for(text, {x, std::vector<double>(70)}, {35, stride, stride < 0 ? 70 : 0}), {});
  }
}

TEST(SmallKernels, ScalarsUnderAMask) {
  const char* text = R"(kernel guarded(in p0: f64, in p1: bool, out p2: f64, out p3: f64; sizes n0) {
  parallel i0 < n0, i1 < 2 {
    %0 = load p1[i0]
    %1 = load p0[i0*100000] if %0
    store p2[i0*2 + i1] %1
    vector i2 < 9 {
      %2 = load p0[i0*100000] if %0
      store p3[i0*18 + i1*9 + i2] %2 if %0
    }
  }
})";
  // Only the first row may be read, since the others are not allocated.
  std::vector<double> out(6), wide(54);
  expect_right(text, memory_for(text, {{5}, {1, 0, 0}, out, wide}, {3}), {});
}

TEST(SmallKernels, EmptyExtents) {
  const char* text = R"(kernel empty(out p0: f32, out p1: i8, out p2: bool; sizes n0 n1) {
  parallel i0 < n0 {
    vector i1 < n1 {
      %0 = constant f32 1.0
      %1 = constant i8 1
      %2 = constant bool 0
    } sum f32 %0 -> %3, max i8 %1 -> %4, all bool %2 -> %5
    store p0[i0] %3
    store p1[i0] %4
    store p2[i0] %5
  }
})";
  for (int64_t rows : {0, 2})
    for (int64_t columns : {0, 1, 50}) expect_right(text, memory_for(text, {{7, 7}, {7, 7}, {1, 1}}, {rows, columns}), {});
}

// Converts all halves to f32 and back, and f32 numbers of all magnitudes to halves.
TEST(SmallKernels, Halves) {
  for (const char* type : {"bf16", "f16"}) {
    std::string t = type;
    std::string widen = "kernel widen(in p0: " + t + ", out p1: f32, out p2: " + t +
                        "; sizes n0) {\n parallel i0 < n0 {\n  %0 = load p0[i0]\n  %1 = cast f32 %0\n  store p1[i0] %1\n  %2 = cast " + t +
                        " %1\n  store p2[i0] %2\n }\n}";
    std::vector<double> out(65536);
    auto halves = memory_for(widen.c_str(), {out, out, out}, {65536});
    for (int i = 0; i < 65536; ++i) {
      auto bits = static_cast<uint16_t>(i);
      std::memcpy(halves.buffers[0].data() + 2 * i, &bits, 2);
    }
    expect_right(widen.c_str(), halves, {});

    std::string narrow = "kernel narrow(in p0: f32, out p1: " + t + "; sizes n0) {\n parallel i0 < n0 {\n  %0 = load p0[i0]\n  %1 = cast " +
                         t + " %0\n  store p1[i0] %1\n }\n}";
    constexpr int64_t kCount = 1 << 17;
    auto singles = memory_for(narrow.c_str(), {std::vector<double>(kCount), std::vector<double>(kCount)}, {kCount});
    for (int64_t i = 0; i < kCount; ++i) {
      // Every other number is next to a rounding boundary.
      uint32_t bits = static_cast<uint32_t>(i * 32771);
      if (i % 2) bits = std::bit_cast<uint32_t>(f16_to_float(static_cast<uint16_t>(i / 2))) + static_cast<uint32_t>(0xfff + i % 3);
      std::memcpy(singles.buffers[0].data() + 4 * i, &bits, 4);
    }
    expect_right(narrow.c_str(), singles, {});
  }
}

}  // namespace
}  // namespace tenon::test
