// Compile time is linear in the number of ops, and memory does not grow with the number of sizes seen.
#include <gtest/gtest.h>
#include <malloc.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>

namespace tenon::test {
namespace {

using torch::Tensor;

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// CPU seconds until calls are served by graphs, minus the time of the eager calls.
template <class F>
double compile_seconds(F&& program, const Tensor& x, Options options) {
  auto fast = tenon::compile(program, std::move(options));
  double start = cpu_seconds();
  for (int i = 0; i < 4; ++i) program(x);
  double eager = cpu_seconds() - start;
  start = cpu_seconds();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(torch::allclose(fast(x), program(x), 1e-3, 1e-4, /*equal_nan=*/true));
  double all = cpu_seconds() - start - 2 * eager;
  EXPECT_GE(tenon::explain(fast).answered, 1u);
  return all;
}

class CompileTime : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("TENON_CHECK_KERNELS")) GTEST_SKIP() << "comparing every kernel takes longer than compiling it";
    at::set_num_threads(1);
  }
  torch::NoGradGuard no_grad;
};

Tensor chain(Tensor x, int ops) {
  for (int i = 0; i < ops / 2; ++i) x = torch::sin(x) + 0.001 * i;
  return x;
}

// A program without repeated op sequences.
Tensor mixed(Tensor x, int ops) {
  for (int i = 0; i < ops; ++i) {
    int kind = (i * i + i / 7) % 4;
    x = kind == 0 ? torch::tanh(x) : kind == 1 ? x * 1.01 : kind == 2 ? torch::exp(-x) : torch::sigmoid(x);
  }
  return x;
}

size_t resident_kilobytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4;
}

}  // namespace

TEST_F(CompileTime, FourHundredPointwiseOps) {
  for (Trust trust : {Trust::checked, Trust::pure}) {
    double least = 1e9;  // Minimum of three runs, because other processes disturb the timing.
    for (int i = 0; i < 3 && least > 0.5; ++i)
      least = std::min(least, compile_seconds([](Tensor x) { return chain(x, 400); }, torch::randn({8}), {.trust = trust}));
    EXPECT_LT(least, 0.5);
  }
}

TEST_F(CompileTime, FiveThousandPointwiseOps) {
  EXPECT_LT(compile_seconds([](Tensor x) { return chain(x, 5000); }, torch::randn({8}), {}), 5);
  EXPECT_LT(compile_seconds([](Tensor x) { return chain(x, 5000); }, torch::randn({8}), {.trust = Trust::pure}), 5);
}

TEST_F(CompileTime, PointwiseOpsTakeLinearTime) {
  double few = compile_seconds([](Tensor x) { return mixed(x, 500); }, torch::randn({8}), {.trust = Trust::pure});
  double many = compile_seconds([](Tensor x) { return mixed(x, 2000); }, torch::randn({8}), {.trust = Trust::pure});
  EXPECT_LT(many, 8 * few) << few;
}

TEST_F(CompileTime, ManyPieces) {
  for (int dim : {0, 1}) {
    auto program = [dim](Tensor x) {
      std::vector<Tensor> slices;
      for (int i = 0; i < 1500; ++i) slices.push_back(x.narrow(dim, i % 64, 1));
      return torch::cat(slices, dim) * 2;
    };
    EXPECT_LT(compile_seconds(program, torch::randn({64, 64}), {.trust = Trust::pure}), 2) << dim;
  }
}

// The gradient is a sum with one summand per slice.
TEST_F(CompileTime, ManySlicesAndTheirGradient) {
  at::AutoGradMode grad_mode(true);
  auto program = [](Tensor given) {
    Tensor x = given.detach().requires_grad_();
    std::vector<Tensor> slices;
    for (int i = 0; i < 600; ++i) slices.push_back(x.slice(0, i, i + 2));
    torch::cat(slices).pow(2).sum().backward();
    return x.grad();
  };
  EXPECT_LT(compile_seconds(program, torch::randn({602, 8}), {}), 4);
}

TEST_F(CompileTime, ThousandLayers) {
  std::vector<torch::nn::Linear> layers;
  for (int i = 0; i < 1000; ++i) layers.emplace_back(4, 4);
  auto program = [&](Tensor x) {
    for (auto& layer : layers) x = x + torch::relu(layer(x));
    return x;
  };
  EXPECT_LT(compile_seconds(program, torch::zeros({2, 4}), {}), 5);
  EXPECT_LT(compile_seconds(program, torch::zeros({2, 4}), {.trust = Trust::pure}), 5);
}

TEST_F(CompileTime, MemoryIsBoundedOverTenThousandSizes) {
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::ReLU(), torch::nn::Linear(8, 2));
  auto fast = tenon::compile(net);
  auto call = [&](int from, int to) {
    for (int size = from; size < to; ++size) fast(torch::ones({1 + size, 4}));
  };
  call(0, 3000);
  size_t before = resident_kilobytes();
  call(3000, 10000);
  EXPECT_LT(resident_kilobytes(), before + 700) << "less than 0.1 kB a call";
}

}  // namespace tenon::test
