// Prints compile times, and only asserts that they are not an order of magnitude longer than usual.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "codegen/kernels.h"
#include "ir/loop/parse.h"

namespace tenon::test {
namespace {

double thread_ms() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

TEST(Timing, OfCompiling) {
  for (const char* text : {kBiasGeluResidual, kLayerNorm, kSoftmax, kTranspose, kCat, kColumnSums, kSum}) {
    auto kernel = ir::loop::parse_kernel(text);
    std::printf("%-20s", kernel.name.c_str());
    for (codegen::Tier tier : codegen::kTiers) {
      double object_ms = 1e9, link_ms = 1e9;
      size_t bytes = 0;
      for (int i = 0; i < 5; ++i) {
        double start = thread_ms();
        std::string object = codegen::object(kernel, tier);
        double middle = thread_ms();
        bytes = codegen::load(object)->bytes;
        object_ms = std::min(object_ms, middle - start);
        link_ms = std::min(link_ms, thread_ms() - middle);
      }
      std::printf("  %s %.1f + %.2f ms, %zu KiB", tier_name(tier), object_ms, link_ms, bytes / 1024);
      EXPECT_LT(object_ms + link_ms, 150);
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace tenon::test
