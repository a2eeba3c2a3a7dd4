// Pure functions that compare tensors on the host (aten::equal): a graph serves a call only if each comparison gives the recorded result.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <cmath>

#include "support/compare.h"

namespace tenon::test {
namespace {

using torch::Tensor;

Options pure(std::vector<Watched> watch = {}) { return {.trust = Trust::pure, .name = "compares", .watch = std::move(watch)}; }

TEST(Comparisons, C5SelfAttentionIsOneGraph) {
  torch::manual_seed(1);
  torch::nn::MultiheadAttention attention(torch::nn::MultiheadAttentionOptions(16, 4).dropout(0));
  auto forward = [&](const Tensor& x) { return std::get<0>(attention(x, x, x)); };
  auto fast = tenon::compile(forward, {.fullgraph = true, .trust = Trust::pure, .name = "attention", .watch = {attention}});
  for (int i = 0; i < 6; ++i) {
    Tensor x = torch::randn({5, 2, 16});
    EXPECT_EQ(difference(forward(x), fast(x)), "") << i;
  }
  EXPECT_EQ(explain(fast).answered, 4u) << explain(fast);
  EXPECT_NE(explain(fast).text().find("aten::equal gives true"), std::string::npos) << explain(fast);
  Tensor broken = torch::randn({5, 2, 16});
  broken[1][0][3] = std::nan("");  // NaN differs from itself, so libtorch takes another branch.
  EXPECT_EQ(difference(forward(broken), fast(broken)), "");
  Tensor x = torch::randn({5, 2, 16});
  EXPECT_EQ(difference(forward(x), fast(x)), "");
}

TEST(Comparisons, C5TrainingATransformerLayer) {
  torch::manual_seed(1);
  torch::nn::TransformerEncoderLayer eager(torch::nn::TransformerEncoderLayerOptions(16, 4).dim_feedforward(32).dropout(0.2));
  torch::nn::TransformerEncoderLayer compiled(eager->options);
  {
    torch::NoGradGuard no_grad;
    for (size_t p = 0; p < eager->parameters().size(); ++p) compiled->parameters()[p].copy_(eager->parameters()[p]);
  }
  auto fast = tenon::compile([&](const Tensor& x) { return compiled(x); }, pure({compiled}));
  for (int i = 0; i < 8; ++i) {
    Tensor x = torch::randn({5, 2, 16});
    if (i == 5) x[0][0][0] = std::nan("");  // The random numbers that the graph has drawn are drawn again.
    eager->zero_grad(), compiled->zero_grad();
    torch::manual_seed(i);
    Tensor a = eager(x);
    a.pow(2).mean().backward();
    Tensor next = torch::rand({3});
    torch::manual_seed(i);
    Tensor b = fast(x);
    b.pow(2).mean().backward();
    EXPECT_EQ(difference(a, b), "") << i;
    EXPECT_EQ(difference(next, torch::rand({3})), "") << "the generator's state";
    for (size_t p = 0; p < eager->parameters().size(); ++p)
      EXPECT_EQ(difference(eager->parameters()[p].grad(), compiled->parameters()[p].grad()), "") << "gradient " << p << ", step " << i;
  }
  EXPECT_GE(explain(fast).answered, 3u) << explain(fast);
}

TEST(Comparisons, C14ABranchThatChanges) {
  int runs = 0;
  auto branch = [&](const Tensor& a, const Tensor& b) {
    ++runs;
    return at::equal(a, b) ? a * 2 : a + b;
  };
  auto fast = tenon::compile(branch, pure());
  Tensor a = torch::randn({4, 3}), b = torch::randn({4, 3});
  auto expect = [&](const Tensor& x, const Tensor& y) { EXPECT_EQ(difference(branch(x, y), fast(x, y)), ""); };
  for (int i = 0; i < 4; ++i) expect(a, a.clone());
  EXPECT_EQ(explain(fast).answered, 2u) << explain(fast);
  for (int i = 0; i < 5; ++i) expect(a, b);
  for (int i = 0; i < 60; ++i) expect(a, i % 2 ? a.clone() : b);
  EXPECT_EQ(explain(fast).obstacles.empty(), false) << explain(fast);
}

TEST(Comparisons, C14AnOpThatFailsInTheOtherBranch) {
  Tensor table = torch::randn({4, 3}), safe = torch::tensor({0, 3, 1});
  auto look_up = [&](const Tensor& ids) { return at::equal(ids, safe) ? table.index_select(0, ids) : torch::zeros({3, 3}); };
  auto fast = tenon::compile(look_up, pure({table, safe}));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(difference(look_up(safe.clone()), fast(safe.clone())), "");
  Tensor outside = torch::tensor({0, 77, 1});
  EXPECT_EQ(difference(look_up(outside), fast(outside)), "");
}

TEST(Comparisons, C14WritesCannotBeUndone) {
  Tensor state = torch::zeros({3});
  auto count = [&](const Tensor& a, const Tensor& b) {
    state.add_(1);
    return at::equal(a, b) ? a * 2 : a + b;
  };
  auto fast = tenon::compile(count, pure({state}));
  Tensor a = torch::randn({3});
  for (int i = 0; i < 6; ++i) fast(a, i < 4 ? a.clone() : a + 1);
  EXPECT_EQ(state[0].item<float>(), 6);
  EXPECT_EQ(explain(fast).answered, 0u) << explain(fast);
  EXPECT_NE(explain(fast).text().find("aten::equal"), std::string::npos) << explain(fast);
}

}  // namespace
}  // namespace tenon::test
