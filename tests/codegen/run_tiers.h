// Runs a kernel's text in every tier of this CPU and compares it with the evaluator.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "codegen/codegen.h"
#include "ir/loop/evaluate.h"
#include "ir/loop/parse.h"
#include "ir/loop/verify.h"
#include "support/random_kernel.h"

namespace tenon::test {

using codegen::Tier;
using ir::loop::LoopKernel;

inline std::vector<Tier> tiers() {
  std::vector<Tier> out;
  for (Tier tier : codegen::kTiers)
    if (tier <= codegen::best_tier()) out.push_back(tier);
  return out;
}

inline std::vector<double> numbers(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(normal(random));
  return out;
}

// Returns the code of a kernel in all tiers; each text is compiled once.
inline const std::vector<std::shared_ptr<const codegen::MachineCode>>& codes_of(const char* text) {
  static std::map<std::string, std::vector<std::shared_ptr<const codegen::MachineCode>>> known;
  auto& codes = known[text];
  if (codes.empty())
    for (Tier tier : tiers()) codes.push_back(codegen::compile(ir::loop::parse_kernel(text), tier));
  return codes;
}

inline void expect_right(const char* text, const KernelMemory& before, const std::vector<double>& tolerances) {
  LoopKernel kernel = ir::loop::parse_kernel(text);
  ir::loop::verify(kernel);
  KernelMemory expected = before;
  evaluate(kernel, expected.arguments());
  for (Tier tier : tiers()) {
    const auto& code = codes_of(text)[static_cast<size_t>(tier)];
    KernelMemory got = before;
    abi::KernelArguments arguments = got.arguments();
    int64_t count = iterations(kernel, got);
    code->run(0, count / 2, &arguments);
    code->run(count / 2, count, &arguments);
    EXPECT_EQ(difference(kernel, got, expected, tolerances), "") << tier_name(tier) << " " << kernel.name;
  }
}

inline KernelMemory memory_for(const char* text, const std::vector<std::vector<double>>& buffers, std::vector<int64_t> sizes,
                               std::vector<double> scalars = {}) {
  return memory_of(ir::loop::parse_kernel(text), buffers, std::move(sizes), std::move(scalars));
}

}  // namespace tenon::test
