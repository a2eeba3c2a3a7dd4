// Kernels like those of fusion in every tier, compared with the evaluator.
#include <cmath>
#include <cstring>

#include "codegen/kernels.h"
#include "codegen/run_tiers.h"

namespace tenon::test {
namespace {

// Lengths around multiples of every tier's step.
constexpr int64_t kLengths[] = {1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 768};

TEST(FusedKernels, BiasGeluResidual) {
  for (int64_t n : kLengths) {
    auto memory = memory_for(kBiasGeluResidual, {numbers(3 * n, 1), numbers(n, 2), numbers(3 * n, 3), std::vector<double>(3 * n)}, {3, n});
    expect_right(kBiasGeluResidual, memory, {0, 0, 0, 2e-6});
  }
}

// An output may alias an input that is read at the same indices.
TEST(FusedKernels, InPlace) {
  LoopKernel kernel = ir::loop::parse_kernel(kLayerNorm);
  constexpr int64_t kRows = 3, kColumns = 173;
  std::vector<double> x = numbers(kRows * kColumns, 1), one(kColumns, 1), small(kRows);
  auto apart = memory_of(kernel, {x, x, one, one, x, small, small}, {kRows, kColumns}, {1.0 / kColumns, 0.01});
  for (const auto& code : codes_of(kLayerNorm)) {
    KernelMemory expected = apart, got = apart;
    abi::KernelArguments arguments = expected.arguments();
    code->run(0, kRows, &arguments);
    arguments = got.arguments();
    std::vector<void*> buffers(arguments.buffers, arguments.buffers + kernel.buffers.size());
    buffers[4] = buffers[1];
    arguments.buffers = buffers.data();
    code->run(0, kRows, &arguments);
    EXPECT_EQ(std::memcmp(got.buffers[1].data(), expected.buffers[4].data(), got.buffers[1].bytes()), 0);
  }
}

TEST(FusedKernels, LayerNorm) {
  for (int64_t n : kLengths) {
    std::vector<double> out(3 * n);
    auto memory = memory_for(kLayerNorm, {numbers(3 * n, 1), numbers(3 * n, 2), numbers(n, 3), numbers(n, 4), out, {0, 0, 0}, {0, 0, 0}},
                             {3, n}, {1.0 / static_cast<double>(n), 0.01});
    expect_right(kLayerNorm, memory, {0, 0, 0, 0, 1e-5, 1e-6, 1e-5});
  }
}

TEST(FusedKernels, SoftmaxWithMask) {
  for (int64_t n : kLengths) {
    std::vector<double> mask(2 * n);
    for (int64_t i = 0; i < n; ++i) mask[i] = i > n / 2 ? -INFINITY : 0;
    auto memory = memory_for(kSoftmax, {numbers(6 * n, 1), mask, std::vector<double>(6 * n)}, {3, n, 2, 2 * n}, {0.125});
    expect_right(kSoftmax, memory, {0, 0, 5e-7});
  }
}

TEST(FusedKernels, SoftmaxOfNanAndOfNothing) {
  std::vector<double> x = numbers(4 * 40, 1);
  x[17] = NAN;
  for (int i = 40; i < 80; ++i) x[i] = -INFINITY;
  x[100] = INFINITY;
  expect_right(kSoftmax, memory_for(kSoftmax, {x, std::vector<double>(40), std::vector<double>(160)}, {4, 40, 1, 40}, {1}), {0, 0, 5e-7});
}

TEST(FusedKernels, Transpose) {
  for (int64_t n : kLengths) expect_right(kTranspose, memory_for(kTranspose, {numbers(5 * n, 1), std::vector<double>(5 * n)}, {n, 5}), {});
}

TEST(FusedKernels, CatByMasks) {
  for (int64_t n : kLengths) {
    auto memory = memory_for(kCat, {numbers(15, 1), numbers(3 * n, 2), std::vector<double>(3 * (n + 5))}, {3, n + 5, n});
    expect_right(kCat, memory, {});
  }
}

TEST(FusedKernels, ColumnSums) {
  for (int64_t n : kLengths)
    for (int64_t rows : {0, 1, 15, 16, 17, 100}) {
      auto memory = memory_for(kColumnSums, {numbers(rows * n, 1), std::vector<double>(n), std::vector<double>(n)}, {rows, n});
      expect_right(kColumnSums, memory, {0, 1e-5, 2e-5});
    }
}

// Eager's cascade sum has an error of about 1 ulp at this length; blocks in f64 have about half of that.
TEST(FusedKernels, LongSumsAreNearlyExact) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<float> unit(0, 1);
  std::vector<float> x(3'000'001);
  double expected = 0;
  for (float& v : x) expected += v = unit(random);
  for (Tier tier : tiers()) {
    auto code = codegen::compile(ir::loop::parse_kernel(kSum), tier);
    float got = 0;
    void* buffers[] = {x.data(), &got};
    int64_t sizes[] = {static_cast<int64_t>(x.size())};
    abi::KernelArguments arguments{buffers, sizes, nullptr};
    code->run(0, 1, &arguments);
    float unit_there = std::nextafter(static_cast<float>(expected), INFINITY) - static_cast<float>(expected);
    EXPECT_LE(std::fabs(got - expected), 0.75 * unit_there) << tier_name(tier);
  }
}

}  // namespace
}  // namespace tenon::test
