#include <gtest/gtest.h>

#include <vector>

#include "codegen/codegen.h"
#include "ir/loop/parse.h"
#include "ir/loop/verify.h"

namespace tenon {
namespace {

TEST(Codegen, AddsRows) {
  auto kernel = ir::loop::parse_kernel(R"(kernel bias(in p0: f32, in p1: f32, out p2: f32; sizes n0 n1) {
  parallel i0 < n0 {
    vector i1 < n1 {
      %0 = load p0[i0*n1 + i1]
      %1 = load p1[i1]
      %2 = add f32 %0 %1
      store p2[i0*n1 + i1] %2
    }
  }
})");
  ir::loop::verify(kernel);
  for (codegen::Tier tier : codegen::kTiers) {
    if (tier > codegen::best_tier()) continue;
    auto code = codegen::compile(kernel, tier);
    int64_t sizes[] = {3, 77};
    std::vector<float> x(3 * 77), bias(77), y(3 * 77, -1.f);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i) * 0.5f;
    void* buffers[] = {x.data(), bias.data(), y.data()};
    abi::KernelArguments arguments{buffers, sizes, nullptr};
    code->run(0, 3, &arguments);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] + bias[i % 77]) << codegen::tier_name(tier) << " " << i;
  }
}

}  // namespace
}  // namespace tenon
