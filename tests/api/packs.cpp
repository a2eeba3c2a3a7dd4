// Packed weights are never stale, however the weights are changed.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/control.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <cstring>
#include <sstream>

namespace tenon::test {

using torch::Tensor;

// The test needs TENON_FORM=packed, because a trial may find the unpacked weight to be fastest.
class Packs : public testing::TestWithParam<std::tuple<Trust, torch::ScalarType, int64_t>> {
 protected:
  void SetUp() override {
    const char* form = std::getenv("TENON_FORM");
    if (!form || !stats_have_native()) GTEST_SKIP() << "needs TENON_FORM=packed and native code";
    torch::manual_seed(1);
    layer->to(std::get<1>(GetParam()));
    x = torch::randn({std::get<2>(GetParam()), 64}).to(std::get<1>(GetParam()));
  }
  static bool stats_have_native() {
    auto names = backends();
    return std::find(names.begin(), names.end(), "native") != names.end();
  }

  // The calls after a change must give eager's results.
  template <class Change>
  void expect_fresh_after(Change change) {
    torch::NoGradGuard no_grad;
    Options options;
    options.trust = std::get<0>(GetParam());
    auto fast = compile(layer, options);
    size_t before = stats().pack_bytes;
    for (int i = 0; i < 4; ++i) fast(x);
    ASSERT_GT(stats().pack_bytes, before);
    for (int round = 0; round < 3; ++round) {
      Tensor old = layer->forward(x);
      change();
      Tensor expected = layer->forward(x);
      ASSERT_FALSE(torch::allclose(old, expected, 1e-3, 1e-3));
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(torch::allclose(fast(x), expected, 2e-2, 2e-2)) << "round " << round << ", call " << i;
    }
  }

  Tensor noise() const { return torch::randn_like(layer->weight); }

  torch::nn::Linear layer{torch::nn::LinearOptions(64, 48)};
  Tensor x;
};

TEST_P(Packs, C3CopyInPlace) {
  expect_fresh_after([&] { layer->weight.copy_(noise()); });
}
TEST_P(Packs, C3CopyIntoData) {
  expect_fresh_after([&] { layer->weight.data().copy_(noise()); });
}
TEST_P(Packs, C3CopyIntoPart) {
  expect_fresh_after([&] { layer->weight.select(0, 7).fill_(torch::rand({}).item<float>() + 1); });
}
TEST_P(Packs, C3Memcpy) {
  expect_fresh_after([&] {
    Tensor from = noise();
    std::memcpy(layer->weight.data_ptr(), from.const_data_ptr(), from.nbytes());
  });
}
TEST_P(Packs, C3MemcpyThroughOldPointer) {
  void* old = layer->weight.data_ptr();
  expect_fresh_after([&, old] {
    Tensor from = noise();
    std::memcpy(old, from.const_data_ptr(), from.nbytes());
  });
}
TEST_P(Packs, C3Load) {
  expect_fresh_after([&] {
    torch::nn::Linear other{torch::nn::LinearOptions(64, 48)};
    other->to(std::get<1>(GetParam()));
    other->weight.copy_(noise());
    std::stringstream file;
    torch::save(other, file);
    torch::load(layer, file);
  });
}
TEST_P(Packs, C3Optimizer) {
  torch::optim::SGD optimizer(layer->parameters(), 1.0);
  expect_fresh_after([&] {
    layer->weight.mutable_grad() = noise();
    optimizer.step();
  });
}
TEST_P(Packs, C3CompiledWriter) {
  Options options;
  options.trust = std::get<0>(GetParam());
  auto writer = compile([&](const Tensor& by) { layer->weight.mul_(0.5).add_(by); }, options);
  expect_fresh_after([&] { writer(noise()); });
}
TEST_P(Packs, C3OtherStorage) {
  if (std::get<0>(GetParam()) == Trust::pure) GTEST_SKIP() << "a guard of its own";
  expect_fresh_after([&] { layer->weight.set_data(noise()); });
}

// A graph writes to a slice of the weight that contains none of the sampled words.
TEST_P(Packs, C3AGraphWritesToAPart) {
  Options options;
  options.trust = std::get<0>(GetParam());
  options.watch = {Watched(layer)};
  auto add = compile([&](const Tensor& by) { return layer->weight.view(-1).narrow(0, 100, 1).add_(by).sum(); }, options);
  expect_fresh_after([&] { add(torch::full({}, 8.0).to(x.scalar_type())); });
}

TEST_P(Packs, C3WithoutBias) {
  torch::NoGradGuard no_grad;
  torch::nn::Linear bare(torch::nn::LinearOptions(64, 48).bias(false));
  bare->to(x.scalar_type());
  Options options;
  options.trust = std::get<0>(GetParam());
  options.watch = {Watched(bare)};
  auto fast = compile([&](const Tensor& in) { return torch::sigmoid(bare(in)); }, options);
  for (int i = 0; i < 6; ++i) {
    Tensor in = torch::randn_like(x);
    EXPECT_TRUE(torch::allclose(fast(in), torch::sigmoid(bare(in)), 2e-2, 2e-2)) << i;
  }
}

// Convolution, batch norm, addition and ReLU become one packed call.
struct ConvolutionsImpl : torch::nn::Module {
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  ConvolutionsImpl() {
    first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)));
    second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 16, 3).padding(1).bias(false)));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(16).eps(0.5)));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(16));
  }
  Tensor forward(const Tensor& x) {
    Tensor y = torch::relu(norm1(first(x)));
    return torch::relu(norm2(second(y)) + y).mean({2, 3});
  }
};
TORCH_MODULE(Convolutions);

TEST_P(Packs, C3ConvolutionWithNorm) {
  torch::NoGradGuard no_grad;
  Convolutions net;
  net->eval();
  net->to(x.scalar_type());
  Tensor image = torch::randn({2, 3, 12, 10}).to(x.scalar_type());
  Options options;
  options.trust = std::get<0>(GetParam());
  auto fast = compile(net, options);
  size_t before = stats().pack_bytes;
  for (int i = 0; i < 4; ++i) fast(image);
  ASSERT_GT(stats().pack_bytes, before);
  EXPECT_TRUE(torch::allclose(fast(image), net->forward(image), 3e-2, 3e-2));
  for (Tensor changed : {net->first->weight, net->first->bias, net->norm1->weight, net->norm1->bias, net->norm1->running_mean,
                         net->norm1->running_var, net->second->weight, net->norm2->running_var}) {
    Tensor old = net->forward(image);
    changed.copy_(torch::rand_like(changed) + 0.5);
    Tensor expected = net->forward(image);
    ASSERT_FALSE(torch::allclose(old, expected, 5e-2, 5e-2));
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(torch::allclose(fast(image), expected, 3e-2, 3e-2)) << changed.sizes() << ", call " << i;
  }
}

// A pack is freed with its weight; no pack is made above the memory limit.
TEST_P(Packs, C3MemoryIsCountedAndLimited) {
  torch::NoGradGuard no_grad;
  size_t before = stats().pack_bytes;
  Tensor expected = layer->forward(x);
  auto fast = compile(layer);
  for (int i = 0; i < 4; ++i) fast(x);
  EXPECT_GT(stats().pack_bytes, before);
  set_pack_limit(0);
  EXPECT_EQ(stats().pack_bytes, 0u);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(torch::allclose(fast(x), expected, 2e-2, 2e-2));
  EXPECT_EQ(stats().pack_bytes, 0u);
  set_pack_limit(SIZE_MAX);
  {
    auto other = compile([w = torch::randn({32, 64}).to(x.scalar_type())](const Tensor& in) { return in.mm(w.t()); });
    for (int i = 0; i < 4; ++i) other(x);
    EXPECT_GT(stats().pack_bytes, 0u);
  }
  EXPECT_EQ(stats().pack_bytes, 0u) << "the weight was freed";
}

INSTANTIATE_TEST_SUITE_P(Ways, Packs,
                         testing::Combine(testing::Values(Trust::checked, Trust::pure), testing::Values(torch::kFloat, torch::kBFloat16),
                                          testing::Values(8, 20)),  // For f32, 8 rows use native loops and 20 rows use MKL.
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Trust::pure ? "pure" : "checked") +
                                  (std::get<1>(info.param) == torch::kFloat ? "F32" : "Bf16") + "Rows" +
                                  std::to_string(std::get<2>(info.param));
                         });

}  // namespace tenon::test
