// Kernels treat infinities and NaN as eager does.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <cstdlib>
#include <limits>

namespace tenon::test {
namespace {

using torch::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor special(at::ScalarType type) {
  return torch::tensor(std::vector<double>{kInfinity, -kInfinity, kNaN, 20, -20, 0, -0.0, 1e4, -1e4}, torch::kDouble).to(type);
}

// Returns the result and the gradient as doubles.
template <class F>
Tensor run(F&& f, const Tensor& values) {
  Tensor x = values.clone().requires_grad_();
  Tensor y = f(x);
  y.sum().backward();
  return torch::stack({y.detach(), x.grad()}).to(torch::kDouble);
}

}  // namespace

// The reference is ATen's scalar loop, because its vector loop gives NaN for f32 and bf16 at +inf (docs/limits.md).
TEST(SpecialValues, Gelu) {
  if (std::getenv("TENON_CHECK_KERNELS")) GTEST_SKIP() << "kernels are compared with ATen's vector loop";
  for (const char* approximate : {"none", "tanh"})
    for (at::ScalarType type : {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf}) {
      auto gelu = [&](Tensor x) { return torch::gelu(x, approximate); };
      auto fast = tenon::compile([&](Tensor x) { return gelu(x) * 1.5; }, {.trust = Trust::pure});
      Tensor values = special(type);
      for (int call = 0; call < 3; ++call) run(fast, values);
      Tensor got = run(fast, values);
      EXPECT_GE(tenon::explain(fast).answered, 1u);
      for (int64_t i = 0; i < values.numel(); ++i) {
        Tensor expected = run([&](Tensor x) { return gelu(x) * 1.5; }, values.slice(0, i, i + 1));
        EXPECT_TRUE(torch::allclose(expected.flatten(), got.select(1, i), 1e-2, 1e-6, /*equal_nan=*/true))
            << approximate << " " << type << " " << values[i].item<double>() << ": " << expected << got.select(1, i);
      }
    }
}

}  // namespace tenon::test
