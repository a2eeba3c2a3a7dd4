// Calls with new shapes are derived from recorded ones.
#include <gtest/gtest.h>
#include <tenon/control.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <algorithm>
#include <random>

#include "support/compare.h"

namespace tenon::test {
namespace {

using torch::Tensor;

struct Block : torch::nn::Module {
  static constexpr int64_t kWidth = 16, kHeads = 2;
  torch::nn::LayerNorm norm1{torch::nn::LayerNormOptions({kWidth})}, norm2{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear qkv{kWidth, 3 * kWidth}, out{kWidth, kWidth}, up{kWidth, 32}, down{32, kWidth};

  Tensor forward(Tensor x) {
    int64_t batch = x.size(0), length = x.size(1);
    auto parts = qkv(norm1(x)).view({batch, length, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    auto mask = torch::ones({length, length}, torch::kBool).triu(1);
    auto scores = torch::matmul(parts[0], parts[1].transpose(-2, -1)).masked_fill(mask, -1e9);
    auto a = torch::matmul(torch::softmax(scores, -1), parts[2]);
    x = x + out(a.transpose(1, 2).reshape({batch, length, kWidth}));
    return x + down(torch::gelu(up(norm2(x))));
  }
};

struct Net {
  torch::nn::Embedding table{50, Block::kWidth}, positions{64, Block::kWidth};
  Block first, second;
  torch::nn::Linear head{Block::kWidth, 50};

  Tensor forward(const Tensor& ids) {
    auto x = table(ids) + positions(torch::arange(ids.size(1)));
    return head(second.forward(first.forward(x)));
  }
};

std::pair<int64_t, int64_t> random_shape(std::mt19937_64& random) {
  return {2 + static_cast<int64_t>(random() % 7), 2 + static_cast<int64_t>(random() % 60)};
}

}  // namespace

TEST(Shapes, C5TwoHundredShapesOfATransformer) {
  for (bool grad : {false, true}) {
    torch::manual_seed(3);
    Net net;
    at::AutoGradMode mode(grad);
    auto fast = tenon::compile([&](Tensor ids) { return net.forward(ids); }, {.name = "transformer"});
    std::mt19937_64 random(7);
    for (int i = 0; i < 200; ++i) {
      auto [batch, length] = random_shape(random);
      Tensor ids = torch::randint(0, 50, {batch, length});
      Tensor got = fast(ids), expected = net.forward(ids);
      ASSERT_EQ(difference(expected, got), "") << batch << " x " << length;
      if (!grad) continue;
      Tensor tangent = torch::randn_like(expected);
      auto a = torch::autograd::grad({expected}, {net.table->weight}, {tangent})[0];
      auto b = torch::autograd::grad({got}, {net.table->weight}, {tangent})[0];
      ASSERT_EQ(difference(a, b), "") << batch << " x " << length;
    }
    Explanation why = tenon::explain(fast);
    EXPECT_LE(why.recorded, 3u) << why;
    EXPECT_LE(why.backwards.recorded, 3u) << why;
    EXPECT_EQ(why.plain + why.backwards.plain, 0u) << why;
    auto is_forward = [](const Explanation::Graph& graph) { return !graph.served_as.starts_with("backward"); };
    EXPECT_LE(std::count_if(why.graphs.begin(), why.graphs.end(), is_forward), 3) << why;
  }
}

TEST(Shapes, C5AShapeThatComesAgainHasAGraph) {
  torch::manual_seed(3);
  torch::NoGradGuard no_grad;
  Net net;
  auto fast = tenon::compile([&](Tensor ids) { return net.forward(ids); });
  for (int64_t length : {9, 12, 17})
    for (int i = 0; i < 5; ++i) {
      Tensor ids = torch::randint(0, 50, {3, length});
      ASSERT_EQ(difference(net.forward(ids), fast(ids)), "") << length;
    }
  Explanation why = tenon::explain(fast);
  EXPECT_EQ(why.recorded, 1u) << why;
  EXPECT_EQ(why.graphs.size(), 2u) << why;  // One for the first shape, one for all others.
  EXPECT_GE(why.answered, 8u) << why;
  for (const auto& graph : why.graphs) EXPECT_GE(graph.calls, 2u) << why;
}

TEST(Shapes, C5DynamicNoRecordsEachShape) {
  auto fast = tenon::compile([](Tensor x) { return x.sin() * 2; }, {.dynamic = Dynamic::no});
  for (int size : {3, 4, 5}) fast(torch::randn({size}));
  EXPECT_EQ(tenon::explain(fast).recorded, 3u);
}

TEST(Shapes, C5ADifferentNumberOfChunksIsRecordedAnew) {
  auto f = [](Tensor x) {
    Tensor sum = torch::zeros({2});
    for (const Tensor& part : x.split(2)) sum = sum + part;
    return sum;
  };
  auto fast = tenon::compile(f);
  for (int i = 0; i < 3; ++i)
    for (int size : {4, 6, 8, 4}) {
      Tensor x = torch::randn({size});
      EXPECT_EQ(difference(f(x), fast(x)), "") << size;
    }
}

TEST(Shapes, C5BroadcastAndSizesOfOneAndZero) {
  auto f = [](Tensor x, Tensor y) { return (x + y).sum(0, true) * y; };
  auto fast = tenon::compile(f);
  for (int round = 0; round < 3; ++round)
    for (auto [a, b] : {std::pair{3, 3}, {1, 3}, {3, 1}, {0, 1}, {5, 5}, {1, 1}, {0, 0}}) {
      Tensor x = torch::randn({a, 2}), y = torch::randn({b, 2});
      EXPECT_EQ(difference(f(x, y), fast(x, y)), "") << a << " " << b;
    }
}

// Ops without a shape rule run where they are called, which splits a call.
TEST(Shapes, C5ATransformerWithANewSizeRunsAsOneGraph) {
  torch::nn::Embedding table(50, 16);
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({16}));
  auto step = [&](Tensor ids) {
    Tensor x = norm(table(ids)).view({ids.size(0), ids.size(1), 2, 8}).transpose(1, 2);
    Tensor loss = torch::scaled_dot_product_attention(x, x, x).square().mean();
    if (at::GradMode::is_enabled()) loss.backward();
    return loss.detach();
  };
  for (bool grad : {false, true}) {
    at::AutoGradMode mode(grad);
    auto fast = tenon::compile(step);
    auto flushes_of = [&](int64_t length) {
      table->zero_grad(), norm->zero_grad();
      size_t before = stats().flushes;
      fast(torch::randint(0, 50, {3, length}));
      return stats().flushes - before;
    };
    for (int64_t length : {5, 5, 7, 9, 11}) flushes_of(length);
    for (int64_t length : {12, 13, 14})
      EXPECT_EQ(flushes_of(length), 1u) << length << ", grad mode " << grad << "\n" << tenon::explain(fast);
    EXPECT_EQ(tenon::explain(fast).recorded, 1u) << tenon::explain(fast);
  }
}

}  // namespace tenon::test
