// Several threads call one compiled function concurrently; one thread trains while another one serves.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/compare.h"
#include "support/program.h"

namespace tenon::test {

TEST(Traps, C14ThreadsCallAtOnce) {
  torch::manual_seed(1);
  torch::nn::Linear fc(8, 8), fc2(8, 8);
  auto f = [&](torch::Tensor x) {
    auto h = fc(x).relu();
    if (h.data_ptr<float>()[0] > 0.1F) h = h * 2;
    return fc2(h).tanh();
  };
  auto fast = tenon::compile(f);
  std::atomic<int> wrong{0};
  auto work = [&](int seed) {
    torch::NoGradGuard off;
    for (int i = 0; i < 200; ++i) {
      auto x = torch::full({3 + i % 2, 8}, 0.01F * static_cast<float>(seed * 200 + i));
      wrong += !difference(f(x), fast(x)).empty();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Traps, C14TrainingBesideServing) {
  torch::manual_seed(1);
  torch::nn::Linear fc(8, 8);
  auto step = [&](torch::Tensor x) {
    auto loss = fc(x).pow(2).sum();
    return torch::autograd::grad({loss}, {fc->weight})[0];
  };
  auto serve = [&](torch::Tensor x) {
    torch::NoGradGuard off;
    return fc(x).relu() + 1;
  };
  auto fast_step = tenon::compile(step);
  auto fast_serve = tenon::compile(serve);
  std::atomic<int> wrong{0};
  std::thread other([&] {
    for (int i = 0; i < 300; ++i) {
      auto x = torch::full({2, 8}, 0.1F * static_cast<float>(i));
      wrong += !difference(step(x), fast_step(x)).empty();
    }
  });
  for (int i = 0; i < 300; ++i) {
    auto x = torch::full({2, 8}, -0.1F * static_cast<float>(i));
    wrong += !difference(serve(x), fast_serve(x)).empty();
  }
  other.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace tenon::test
