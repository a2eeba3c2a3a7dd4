// Random kernels of the loop language, and memory to run them on: all dtypes, one to three parallel variables, serial and vector
// loops, reductions, masks, strides, broadcasts, flips and gathers.
//
//   std::mt19937_64 random(seed);
//   RandomKernel r = random_kernel(random);
//   KernelMemory expected = random_memory(r, random), got = expected;
//   evaluate(r.kernel, expected.arguments());
//   compiled(0, iterations(r.kernel, got), &arguments_of_got);
//   EXPECT_EQ(difference(r.kernel, got, expected, r.tolerances), "");
#pragma once

#include <map>
#include <random>
#include <vector>

#include "ir/loop/loop.h"
#include "support/kernel_memory.h"

namespace tenon::test {

// Rule by which random_memory() chooses one of the kernel's sizes.
struct SizeRule {
  enum class Kind : uint8_t {
    extent,   // Any value from 0 to `max`.
    free,     // A stride or offset from 0 to `max`.
    product,  // The value a * b + max: the next outer stride of a loop of size b with stride a.
    last,     // The last index of a loop of size a: a - 1, or 0.
  };
  Kind kind = Kind::extent;
  int64_t max = 0;
  ir::loop::LoopSize a, b;
  bool operator==(const SizeRule&) const = default;
};

struct RandomKernel {
  ir::loop::LoopKernel kernel;
  bool is_exact = false;                                 // The inputs may hold any value: NaN, infinity, huge values.
  std::vector<double> tolerances;                        // Tolerance of each buffer.
  std::vector<SizeRule> sizes;                           // A rule refers to earlier sizes only.
  std::map<ir::loop::Reg, ir::loop::LoopSize> in_index;  // Exclusive upper bounds of registers that are used in indices.
};

RandomKernel random_kernel(std::mt19937_64& random);

// Each call chooses different sizes, and thus different lengths of buffers.
KernelMemory random_memory(const RandomKernel& kernel, std::mt19937_64& random);

// Returns the count of iterations of the flattened parallel loop.
int64_t iterations(const ir::loop::LoopKernel& kernel, const KernelMemory& memory);

}  // namespace tenon::test
