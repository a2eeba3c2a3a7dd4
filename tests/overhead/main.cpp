// Allocations and dispatches of a call under reduce_overhead. This is a separate program, because it counts every malloc of the
// process.
#include <ATen/record_function.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <cstdlib>

#include "bench/models/small.h"

namespace {

std::atomic<size_t> g_allocations{0}, g_dispatched{0};
thread_local int t_depth = 0;

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" void* malloc(size_t bytes) {
  static const auto real = next<void* (*)(size_t)>("malloc");
  ++g_allocations;
  return real(bytes);
}
extern "C" int posix_memalign(void** out, size_t alignment, size_t bytes) {
  static const auto real = next<int (*)(void**, size_t, size_t)>("posix_memalign");
  ++g_allocations;
  return real(out, alignment, bytes);
}
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) {
  static const auto real = next<void* (*)(size_t, size_t)>("aligned_alloc");
  ++g_allocations;
  return real(alignment, bytes);
}

namespace tenon::test {
namespace {

using torch::Tensor;

struct Counts {
  double allocations = 0, dispatched = 0;  // Numbers per call.
};

// Counts ops that are not called by other ops.
void count_dispatched() {
  at::addGlobalCallback(at::RecordFunctionCallback(
                            [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> {
                              if (t_depth++ == 0) ++g_dispatched;
                              return nullptr;
                            },
                            [](const at::RecordFunction&, at::ObserverContext*) { --t_depth; })
                            .scopes({at::RecordScope::FUNCTION}));
}

template <class F>
Counts count(F call) {
  constexpr int kCalls = 20;
  torch::NoGradGuard no_grad;
  for (int i = 0; i < 6; ++i) call();
  size_t allocations = g_allocations, dispatched = g_dispatched;
  for (int i = 0; i < kCalls; ++i) call();
  return {static_cast<double>(g_allocations - allocations) / kCalls, static_cast<double>(g_dispatched - dispatched) / kCalls};
}

Options lean() {
  Options options;
  options.trust = Trust::pure;
  options.mode = Mode::reduce_overhead;
  return options;
}

}  // namespace

TEST(Overhead, C3TheCountersCount) {
  Counts eager = count([] { return torch::zeros({3}) + 1; });
  EXPECT_GE(eager.allocations, 2);
  EXPECT_EQ(eager.dispatched, 2);
}

TEST(Overhead, C3SmallNetworksTakeNothing) {
  torch::manual_seed(0);
  bench::Mlp mlp(std::vector<int64_t>{128, 128, 128, 128});
  auto fast_mlp = compile(mlp, lean());
  Tensor row = torch::randn({1, 128});
  Counts counts = count([&] { return fast_mlp(row); });
  EXPECT_EQ(counts.dispatched, 0);
  EXPECT_EQ(counts.allocations, 0);
  bench::LstmStep lstm(128);
  lstm->eval();
  auto fast_lstm = compile(lstm, lean());
  Tensor hidden = torch::randn({1, 128}), cell = torch::randn({1, 128});
  counts = count([&] { return fast_lstm(row, hidden, cell); });
  EXPECT_EQ(counts.dispatched, 0);
  EXPECT_EQ(counts.allocations, 0);
  bench::SmallCnn cnn;
  cnn->eval();
  auto fast_cnn = compile(cnn, lean());
  Tensor image = torch::randn({1, 3, 32, 32});
  counts = count([&] { return fast_cnn(image); });
  EXPECT_EQ(counts.dispatched, 0);
  EXPECT_EQ(counts.allocations, 0);
}

// A program of kernels, views and MKL products only. MKL is called without the dispatcher.
TEST(Overhead, C3LargerOnesTakeWhatIsListed) {
  torch::manual_seed(0);
  torch::nn::Linear up(256, 1024), down(1024, 256);
  Options options = lean();
  options.watch = {Watched(up), Watched(down)};
  auto fast = compile(
      [&](const Tensor& x) {
        Tensor hidden = torch::gelu(up(x)).view({32, 16, 64}).transpose(1, 2);
        return torch::softmax(down(hidden.transpose(1, 2).reshape({32, 1024})), -1);
      },
      options);
  Tensor x = torch::randn({32, 256});
  Counts counts = count([&] { return fast(x); });
  size_t listed = 0;
  for (const auto& graph : explain(fast).graphs) {
    for (const auto& kernel : graph.kernels) listed += kernel.call.find("weight not packed") != std::string::npos;
    for (const auto& call : graph.aten_calls) listed += call.count;
  }
  EXPECT_EQ(counts.dispatched, static_cast<double>(listed));
  EXPECT_EQ(counts.allocations, 0);
}

}  // namespace tenon::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  tenon::test::count_dispatched();
  return RUN_ALL_TESTS();
}
