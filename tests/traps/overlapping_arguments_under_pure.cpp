// Under `pure`, arguments cover the same memory through different storages.
#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/program.h"

namespace tenon::test {

TEST(Traps, C14OverlappingArgumentsUnderPure) {
  auto body = [](torch::Tensor a, torch::Tensor b) {
    a.mul_(2);
    auto s = b + 1;
    a.add_(1);
    return s + b;
  };
  auto fast = tenon::compile(body, {.trust = Trust::pure});
  torch::NoGradGuard off;
  auto over = [](float* begin) { return torch::from_blob(begin, {8}, [](void*) {}); };
  for (int i = 0; i < 24; ++i) {
    std::vector<float> eager(24), compiled(24);
    for (int k = 0; k < 24; ++k) eager[k] = compiled[k] = static_cast<float>(k + i);
    int offset = i % 3 == 2 ? 4 : 12;  // The arguments are disjoint at first and overlap in every third call.
    auto expected = body(over(eager.data()), over(eager.data() + offset));
    auto got = fast(over(compiled.data()), over(compiled.data() + offset));
    EXPECT_EQ(difference(expected, got), "") << "call " << i;
    EXPECT_EQ(eager, compiled) << "call " << i;
  }
  EXPECT_GT(tenon::explain(fast).answered, 0u);
}

// An argument overlaps a state tensor.
TEST(Traps, C14ArgumentOverStateUnderPure) {
  torch::Tensor state = torch::arange(16, torch::kFloat), twin = state.clone();
  auto body = [](torch::Tensor into, torch::Tensor x) {
    into.add_(1);
    return x * 2;
  };
  auto fast = tenon::compile([&](torch::Tensor x) { return body(state, x); }, {.trust = Trust::pure, .watch = {state}});
  torch::NoGradGuard off;
  for (int i = 0; i < 16; ++i) {
    bool over = i % 4 == 3;
    auto x = over ? torch::from_blob(state.data_ptr<float>() + 4, {8}, [](void*) {}) : torch::ones({8});
    auto y = over ? torch::from_blob(twin.data_ptr<float>() + 4, {8}, [](void*) {}) : torch::ones({8});
    EXPECT_EQ(difference(body(twin, y), fast(x)), "") << "call " << i;
    EXPECT_EQ(difference(twin, state), "") << "call " << i;
  }
  EXPECT_GT(tenon::explain(fast).answered, 0u);
}

}  // namespace tenon::test
