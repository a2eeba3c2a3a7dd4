// Results of several calls live side by side: a = f(x1); b = f(x2); a - b.
#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/program.h"

namespace tenon::test {

TEST(Traps, C14TwoResultsSideBySide) {
  torch::manual_seed(1);
  torch::nn::Linear fc(8, 8);
  auto f = [&](torch::Tensor x) { return fc(x).relu() * 2; };
  auto fast = tenon::compile(f);
  for (int i = 0; i < 6; ++i) {
    auto x1 = torch::randn({4, 8}), x2 = torch::randn({4, 8});
    auto a = fast(x1), b = fast(x2);
    EXPECT_EQ(difference(f(x1) - f(x2), a - b), "");
  }
  EXPECT_GT(tenon::explain(fast).answered, 6u);
}

}  // namespace tenon::test
