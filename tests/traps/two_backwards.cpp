// One backward through two calls: (f(a) + f(b)).backward(), and a backward long after the call.
#include <gtest/gtest.h>

#include "support/compare.h"
#include "support/program.h"

namespace tenon::test {
namespace {

template <class F>
torch::Tensor gradient(torch::nn::Linear& fc, F&& loss) {
  fc->weight.mutable_grad().reset();
  loss().backward();
  return fc->weight.grad();
}

}  // namespace

TEST(Traps, C14OneBackwardThroughTwoCalls) {
  torch::manual_seed(1);
  torch::nn::Linear fc(8, 8);
  auto f = [&](torch::Tensor x) { return fc(fc(x).tanh()).pow(2).sum(); };
  auto fast = tenon::compile(f);
  for (int i = 0; i < 6; ++i) {
    auto a = torch::randn({4, 8}), b = torch::randn({4, 8});
    auto expected = gradient(fc, [&] { return f(a) + f(b); });
    EXPECT_EQ(difference(expected, gradient(fc, [&] { return fast(a) + fast(b); })), "");
  }
}

TEST(Traps, C14BackwardLongAfterTheCall) {
  torch::manual_seed(1);
  torch::nn::Linear fc(8, 8);
  auto f = [&](torch::Tensor x) { return fc(fc(x).tanh()).pow(2).sum(); };
  auto fast = tenon::compile(f);
  std::vector<torch::Tensor> inputs, losses;
  for (int i = 0; i < 5; ++i) {
    inputs.push_back(torch::randn({4, 8}));
    losses.push_back(fast(inputs.back()));
  }
  for (int i = 4; i >= 0; --i) {
    auto expected = gradient(fc, [&] { return f(inputs[i]); });
    EXPECT_EQ(difference(expected, gradient(fc, [&] { return losses[i]; })), "");
  }
}

}  // namespace tenon::test
