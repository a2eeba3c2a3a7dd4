// Random kernels of the loop language, with memory to run them on: all types, one to three parallel
// variables, serial and vector loops, reductions, masks, strides, broadcasts, flips and gathers.
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

// How one of the kernel's sizes may be chosen.
struct SizeRule {
  enum class Kind : uint8_t {
    extent,   // 0 to most
    free,     // a stride or offset, 0 to most
    product,  // a * b + most: the next stride behind a loop of b with stride a
    last,     // a - 1, or 0
  };
  Kind kind = Kind::extent;
  int64_t most = 0;
  ir::loop::Size a, b;
  bool operator==(const SizeRule&) const = default;
};

struct RandomKernel {
  ir::loop::LoopKernel kernel;
  bool is_exact = false;                             // its data may be anything: NaN, infinity, huge
  std::vector<double> tolerances;                    // of each buffer
  std::vector<SizeRule> sizes;                       // each speaks of earlier ones only
  std::map<ir::loop::Reg, ir::loop::Size> in_index;  // registers in indices, and what they are below
};

RandomKernel random_kernel(std::mt19937_64& random);

// Each call chooses other sizes, and with that other lengths of buffers.
KernelMemory random_memory(const RandomKernel& kernel, std::mt19937_64& random);

// Of the flattened parallel loop.
int64_t iterations(const ir::loop::LoopKernel& kernel, const KernelMemory& memory);

}  // namespace tenon::test
