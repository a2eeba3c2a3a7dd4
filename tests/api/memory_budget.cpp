// Options::memory_budget: what a forward saves and what its backward computes again does not change gradients.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include "support/compare.h"

namespace tenon::test {
namespace {

using torch::Tensor;

struct GatedBlockImpl : torch::nn::Module {
  GatedBlockImpl()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})))),
        batch_norm(register_module("batch_norm", torch::nn::BatchNorm1d(64))),
        up(register_module("up", torch::nn::Linear(32, 64))),
        down(register_module("down", torch::nn::Linear(64, 32))) {}
  Tensor forward(const Tensor& x) {
    Tensor wide = batch_norm(torch::gelu(up(norm(x))));
    return x + down(torch::silu(wide) * torch::dropout(wide, 0.2, true));
  }
  torch::nn::LayerNorm norm;
  torch::nn::BatchNorm1d batch_norm;
  torch::nn::Linear up, down;
};
TORCH_MODULE(GatedBlock);

GatedBlock make_block() {
  torch::manual_seed(8);
  return GatedBlock();
}

// The number of ops that forward and backward compute.
size_t computed_ops(const Explanation& why) {
  size_t count = 0;
  for (const Explanation::Graph& graph : why.graphs) {
    for (const Explanation::Kernel& kernel : graph.kernels) count += kernel.ops.size();
    for (const Explanation::Call& call : graph.aten_calls) count += call.count;
  }
  return count;
}

TEST(MemoryBudget, C8GradientsAreEager) {
  std::vector<size_t> ops;
  for (double budget : {0.0, 0.2, 0.6, 1.0}) {
    GatedBlock eager = make_block(), compiled = make_block();
    auto fast = tenon::compile(compiled, {.trust = Trust::pure, .name = "block", .memory_budget = budget});
    for (int i = 0; i < 6; ++i) {
      torch::manual_seed(i);
      Tensor x = torch::randn({40, 32});
      for (int which = 0; which < 2; ++which) {
        torch::manual_seed(100 + i);
        (which ? compiled : eager)->zero_grad();
        (which ? fast(x) : eager->forward(x)).pow(2).mean().backward();
      }
      auto a = eager->named_parameters(), b = compiled->named_parameters();
      for (const auto& parameter : a)
        EXPECT_EQ(difference(parameter.value().grad(), b[parameter.key()].grad()), "")
            << parameter.key() << ", step " << i << ", budget " << budget;
      EXPECT_EQ(difference(eager->batch_norm->running_var, compiled->batch_norm->running_var), "") << "step " << i;
    }
    Explanation why = explain(fast);
    EXPECT_GE(why.answered, 3u) << why;
    ops.push_back(computed_ops(why));
  }
  EXPECT_GT(ops.front(), ops.back()) << "the smallest budget computes values again";
}

// Eager saves only the result, so the argument may be changed before the backward.
TEST(MemoryBudget, C8AnArgumentChangesBeforeTheBackward) {
  Tensor bias = torch::randn({16}), other = bias.clone();
  bias.set_requires_grad(true), other.set_requires_grad(true);
  auto fast = tenon::compile([&](const Tensor& x) { return torch::sigmoid(torch::relu(x + other)); },
                             {.trust = Trust::pure, .watch = {other}, .memory_budget = 0});
  for (int i = 0; i < 5; ++i) {
    Tensor x = torch::randn({8, 16}), y = x.clone();
    Tensor expected = torch::sigmoid(torch::relu(x + bias)), got = fast(y);
    x.mul_(-1), y.mul_(-1);
    Tensor a = torch::autograd::grad({expected.sum()}, {bias})[0], b = torch::autograd::grad({got.sum()}, {other})[0];
    EXPECT_EQ(difference(a, b), "") << "step " << i;
  }
}

TEST(MemoryBudget, C8OtherNumbersAreRefused) {
  for (double budget : {-0.1, 1.5, std::nan("")})
    EXPECT_THROW(tenon::compile([](const Tensor& x) { return x + 1; }, {.memory_budget = budget}), UserError);
}

}  // namespace
}  // namespace tenon::test
