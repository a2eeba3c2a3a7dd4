// Small networks run as flat plans, and never overwrite results that the caller holds.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/control.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <thread>

namespace tenon::test {

using torch::Tensor;

class SmallNetworks : public testing::TestWithParam<Trust> {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    net->eval();
  }
  Tensor expected(const Tensor& x) {
    torch::NoGradGuard no_grad;
    return net->forward(x);
  }
  auto compiled() {
    Options options;
    options.trust = GetParam();
    auto fast = compile(net, options);
    torch::NoGradGuard no_grad;
    for (int i = 0; i < 4; ++i) fast(torch::randn({1, 20}));
    return fast;
  }
  static bool close(const Tensor& a, const Tensor& b) { return torch::allclose(a, b, 1e-4, 1e-5); }

  torch::nn::Sequential net{torch::nn::Linear(20, 70), torch::nn::ReLU(), torch::nn::Linear(70, 33), torch::nn::Tanh(),
                            torch::nn::Linear(33, 5)};
};

TEST_P(SmallNetworks, C3WhatIsHeldIsNotWrittenAgain) {
  torch::NoGradGuard no_grad;
  auto fast = compiled();
  std::vector<Tensor> inputs, results, views;
  std::vector<c10::Storage> storages;
  for (int i = 0; i < 6; ++i) {
    inputs.push_back(torch::randn({1, 20}));
    Tensor y = fast(inputs.back());
    EXPECT_TRUE(close(y, expected(inputs.back())));
    if (i % 3 == 0) results.push_back(y);
    if (i % 3 == 1) views.push_back(y.slice(1, 1, 4));
    if (i % 3 == 2) storages.push_back(y.storage());
  }
  for (int i = 0; i < 6; ++i) {
    Tensor y = expected(inputs[static_cast<size_t>(i)]);
    size_t at = static_cast<size_t>(i / 3);
    if (i % 3 == 0) EXPECT_TRUE(close(results[at], y));
    if (i % 3 == 1) EXPECT_TRUE(close(views[at], y.slice(1, 1, 4)));
    if (i % 3 == 2) EXPECT_NEAR(static_cast<const float*>(storages[at].data())[0], y[0][0].item<float>(), 1e-4);
  }
}

TEST_P(SmallNetworks, C3WhatTheCallerMadeOfAResultIsForgotten) {
  torch::NoGradGuard no_grad;
  auto fast = compiled();
  auto changes = std::vector<std::function<void(Tensor)>>{
      [](Tensor y) { y.requires_grad_(true); }, [](Tensor y) { y.t_(); },     [](Tensor y) { y.resize_({3}); },
      [](Tensor y) { y.resize_({40}); },        [](Tensor y) { y.zero_(); },  [](Tensor y) { y.set_data(torch::zeros({2})); },
      [](Tensor y) { y.squeeze_(); },           [](Tensor y) { y.detach_(); }};
  for (auto& change : changes) {
    change(fast(torch::randn({1, 20})));
    Tensor x = torch::randn({1, 20}), y = fast(x);
    EXPECT_FALSE(y.requires_grad());
    ASSERT_EQ(y.sizes(), (std::vector<int64_t>{1, 5}));
    EXPECT_TRUE(y.is_contiguous());
    EXPECT_TRUE(close(y, expected(x)));
  }
}

TEST_P(SmallNetworks, C3WithoutRoomForPacks) {
  torch::NoGradGuard no_grad;
  set_pack_limit(0);
  auto fast = compiled();
  for (int i = 0; i < 3; ++i) {
    Tensor x = torch::randn({1, 20});
    EXPECT_TRUE(close(fast(x), expected(x))) << i;
  }
  set_pack_limit(SIZE_MAX);
}

TEST_P(SmallNetworks, C3InferenceModeIsNotLeftBehind) {
  auto fast = compiled();
  Tensor x = torch::randn({1, 20});
  for (int i = 0; i < 8; ++i) {
    c10::InferenceMode inference(i % 2 == 1);
    torch::NoGradGuard no_grad;
    Tensor y = fast(x);
    EXPECT_EQ(y.is_inference(), i % 2 == 1);
    EXPECT_TRUE(close(y, expected(x)));
  }
}

TEST_P(SmallNetworks, C12ManyThreadsAtOnce) {
  auto fast = compiled();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      torch::NoGradGuard no_grad;
      std::vector<Tensor> kept;
      for (int i = 0; i < 200; ++i) {
        Tensor x = torch::full({1, 20}, 0.01 * (t * 200 + i)), y = fast(x);
        if (!close(y, expected(x))) ++wrong;
        if (i % 7 == 0) kept.push_back(y);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A convolutional network with a residual connection, with sizes that are no multiples of a vector.
TEST_P(SmallNetworks, C3SmallConvolutions) {
  torch::NoGradGuard no_grad;
  using Conv = torch::nn::Conv2dOptions;
  for (auto [channels, stride, padding, dilation] : {std::tuple{5, 1, 1, 1}, {16, 2, 0, 1}, {33, 1, 2, 2}, {40, 3, 1, 1}}) {
    torch::nn::Conv2d first(Conv(3, channels, 3).stride(stride).padding(padding).dilation(dilation)), second(Conv(channels, channels, 1));
    torch::nn::Conv2d third(Conv(channels, 7, torch::ExpandingArray<2>({3, 2})).padding(1));
    auto forward = [&](const Tensor& x) {
      Tensor y = torch::relu(first(x));
      return torch::relu(third(torch::relu(second(y) + y))).mean({2, 3});
    };
    Options options;
    options.trust = GetParam();
    options.watch = {Watched(first), Watched(second), Watched(third)};
    auto fast = compile(forward, options);
    for (int i = 0; i < 5; ++i) {
      Tensor x = torch::randn({2, 3, 11, 13});
      if (i == 4) x.select(2, 3).fill_(NAN);
      EXPECT_TRUE(torch::allclose(fast(x), forward(x), 1e-4, 1e-5, /*equal_nan=*/true)) << channels << " channels, call " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, SmallNetworks, testing::Values(Trust::checked, Trust::pure),
                         [](const auto& info) { return info.param == Trust::pure ? "pure" : "checked"; });

}  // namespace tenon::test
