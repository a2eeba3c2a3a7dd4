// Every mode gives eager's results, holds no tensors of the caller, and never overwrites a result that the caller holds.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <thread>

namespace tenon::test {

using torch::Tensor;

// A network that is too large for a flat plan. It has views between its products, a result that is a view, and a result that is a view
// of an input.
struct WideNet : torch::nn::Module {
  WideNet() {
    register_module("up", up);
    register_module("down", down);
  }
  std::vector<Tensor> forward(const Tensor& x) {
    Tensor hidden = torch::gelu(up(x)).view({x.size(0), 4, 192}).transpose(1, 2).contiguous();
    Tensor mixed = torch::softmax(hidden, 1).transpose(1, 2).reshape({x.size(0), 768});
    Tensor out = down(mixed) + x;
    return {out, out.slice(1, 3, 40).t(), x.narrow(0, 2, 5)};
  }
  torch::nn::Linear up{192, 768}, down{768, 192};
};

class Modes : public testing::TestWithParam<std::tuple<Trust, Mode>> {
 protected:
  void SetUp() override {
    torch::manual_seed(5);
    net->eval();
  }
  std::vector<Tensor> expected(const Tensor& x) {
    torch::NoGradGuard no_grad;
    return net->forward(x);
  }
  auto compiled() {
    Options options;
    std::tie(options.trust, options.mode) = GetParam();
    options.tuning_seconds = 2;
    auto fast = compile(net, options);
    torch::NoGradGuard no_grad;
    for (int i = 0; i < 4; ++i) fast(torch::randn({24, 192}));
    return fast;
  }
  static bool close(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    bool all = a.size() == b.size();
    for (size_t i = 0; i < a.size() && all; ++i) all = torch::allclose(a[i], b[i], 1e-3, 1e-4);
    return all;
  }

  std::shared_ptr<WideNet> net = std::make_shared<WideNet>();
};

TEST_P(Modes, C3WhatIsHeldIsNotWrittenAgain) {
  torch::NoGradGuard no_grad;
  auto fast = compiled();
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> results;
  for (int i = 0; i < 6; ++i) {
    inputs.push_back(torch::randn({24, 192}));
    auto y = fast(inputs.back());
    EXPECT_TRUE(close(y, expected(inputs.back())));
    if (i % 2 == 0) y[0] = Tensor();  // The view still holds its memory.
    results.push_back(y);
  }
  for (size_t i = 0; i < 6; ++i) {
    auto y = expected(inputs[i]);
    if (i % 2 == 0) y[0] = results[i][0] = y[1];
    EXPECT_TRUE(close(results[i], y)) << i;
  }
}

TEST_P(Modes, C3NothingOfTheCallersIsHeld) {
  torch::NoGradGuard no_grad;
  auto fast = compiled();
  Tensor x = torch::randn({24, 192});
  c10::weak_intrusive_ptr<c10::StorageImpl> storage(x.storage().getWeakStorageImpl());
  fast(x);
  fast(x);
  x = Tensor();
  EXPECT_TRUE(storage.expired());
}

// The storage offset of an argument may differ from the recorded one.
TEST_P(Modes, C3InputsLieAnywhere) {
  torch::NoGradGuard no_grad;
  auto fast = compiled();
  Tensor all = torch::randn({7, 24, 192});
  for (int64_t i = 0; i < 7; ++i) EXPECT_TRUE(close(fast(all[i]), expected(all[i]))) << i;
  for (int i = 0; i < 3; ++i) {
    net->up->weight.set_data(torch::randn({768, 192}));
    net->down->weight.copy_(torch::randn({192, 768}));
    EXPECT_TRUE(close(fast(all[i]), expected(all[i]))) << i;
  }
}

TEST_P(Modes, C3InferenceModeIsNotLeftBehind) {
  auto fast = compiled();
  Tensor x = torch::randn({24, 192});
  for (int i = 0; i < 8; ++i) {
    c10::InferenceMode inference(i % 2 == 1);
    torch::NoGradGuard no_grad;
    auto y = fast(x);
    EXPECT_EQ(y[0].is_inference(), i % 2 == 1);
    EXPECT_TRUE(close(y, expected(x)));
  }
}

TEST_P(Modes, C12ManyThreadsAtOnce) {
  auto fast = compiled();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      torch::NoGradGuard no_grad;
      for (int i = 0; i < 25; ++i) {
        Tensor x = torch::full({24, 192}, 0.01 * (t * 200 + i));
        if (!close(fast(x), expected(x))) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Views without elements, and a view with another dtype of a view; the frame cannot represent either by an offset into its base.
TEST_P(Modes, C12ViewsOfViews) {
  torch::NoGradGuard no_grad;
  auto program = [](const Tensor& x) {
    Tensor squares = torch::square(x), empty = torch::log10(squares.narrow(0, 1, 0)).view({3, 0, 2});
    Tensor bits = squares.split(2)[1].view(torch::kInt);
    return std::vector<Tensor>{torch::slice_scatter(empty, empty.slice(0, 0, 1), 0, 0, 1), torch::cumsum(bits, 0) + 1};
  };
  Options options;
  std::tie(options.trust, options.mode) = GetParam();
  auto fast = compile(program, options);
  for (int i = 0; i < 5; ++i) {
    Tensor x = torch::randn({4, 6});
    auto got = fast(x), want = program(x);
    EXPECT_EQ(got[0].sizes(), want[0].sizes());
    EXPECT_TRUE(torch::equal(got[1], want[1])) << i;
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<Trust, Mode>>& info) {
  const char* modes[] = {"standard", "reduce_overhead", "max_autotune"};
  auto [trust, mode] = info.param;
  return std::string(trust == Trust::pure ? "pure_" : "checked_") + modes[static_cast<int>(mode)];
}

INSTANTIATE_TEST_SUITE_P(All, Modes,
                         testing::Combine(testing::Values(Trust::checked, Trust::pure),
                                          testing::Values(Mode::standard, Mode::reduce_overhead, Mode::max_autotune)),
                         name_of);

}  // namespace tenon::test
