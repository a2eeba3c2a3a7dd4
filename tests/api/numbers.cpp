// Numbers beside bf16 and f16 tensors: ATen rounds some to the tensor's type first, and computes with the others in f32. All values of both
// types, in kernels that are not compared with ATen; ctest runs these tests in `unchecked`.
#include <gtest/gtest.h>
#include <tenon/compile.h>
#include <tenon/inspect.h>
#include <torch/torch.h>

#include <functional>

namespace tenon::test {
namespace {

using torch::Tensor;

struct NumberOp {
  const char* name;
  std::function<Tensor(const Tensor&, double)> run;
};

const NumberOp kNumberOps[] = {
    {"x + s", [](const Tensor& x, double s) { return x + s; }},
    {"x - s", [](const Tensor& x, double s) { return x - s; }},
    {"s - x", [](const Tensor& x, double s) { return s - x; }},
    {"x * s", [](const Tensor& x, double s) { return x * s; }},
    {"x / s", [](const Tensor& x, double s) { return x / s; }},
    {"s / x", [](const Tensor& x, double s) { return s / x; }},
    {"add_", [](const Tensor& x, double s) { return x.clone().add_(s); }},
    {"sub_", [](const Tensor& x, double s) { return x.clone().sub_(s); }},
    {"mul_", [](const Tensor& x, double s) { return x.clone().mul_(s); }},
    {"div_", [](const Tensor& x, double s) { return x.clone().div_(s); }},
    {"add_ alpha", [](const Tensor& x, double s) { return x.clone().add_(x.flip(0), s); }},
    {"sub alpha", [](const Tensor& x, double s) { return torch::sub(x, x.flip(0), s); }},
    {"rsub alpha", [](const Tensor& x, double s) { return torch::rsub(x, x.flip(0), s); }},
    {"lerp", [](const Tensor& x, double s) { return torch::lerp(x, x.flip(0), s); }},
    {"addcmul", [](const Tensor& x, double s) { return torch::addcmul(x, x, x.flip(0), s); }},
    {"tensor * x", [](const Tensor& x, double s) { return torch::scalar_tensor(s, torch::kDouble) * x; }},
    {"x * tensor", [](const Tensor& x, double s) { return x * torch::scalar_tensor(s, torch::kDouble); }},
    {"tensor - x", [](const Tensor& x, double s) { return torch::scalar_tensor(s, torch::kDouble) - x; }},
    {"x < s", [](const Tensor& x, double s) { return x < s; }},
    {"x == s", [](const Tensor& x, double s) { return x == s; }},
    {"clamp", [](const Tensor& x, double s) { return x.clamp(-s, s); }},
    {"hardshrink", [](const Tensor& x, double s) { return torch::hardshrink(x, s); }},
    {"threshold", [](const Tensor& x, double s) { return torch::threshold(x, s, s); }},
    {"fmod", [](const Tensor& x, double s) { return torch::fmod(x.clamp(-9, 9), s); }},
    {"remainder", [](const Tensor& x, double s) { return torch::remainder(x.clamp(-9, 9), s); }},
};

// The number of elements whose bits differ, where NaN equals NaN.
int64_t differing(const Tensor& a, const Tensor& b) {
  Tensor x = a.to(torch::kDouble), y = b.to(torch::kDouble);
  return (x.ne(y) | x.signbit().ne(y.signbit())).logical_and((x.isnan() & y.isnan()).logical_not()).sum().item<int64_t>();
}

void compare_numbers(torch::ScalarType type) {
  if (std::getenv("TENON_CHECK_KERNELS")) GTEST_SKIP() << "kernels serve ATen's results";
  torch::NoGradGuard no_grad;
  Tensor x = torch::arange(-32768, 32768, torch::kInt).to(torch::kShort).view(type);
  for (const NumberOp& op : kNumberOps)
    for (double number : {1.37, 0.21, 0.1, 0.999}) {
      auto fast = compile([&](const Tensor& t) { return op.run(t, number); }, {.trust = Trust::pure, .name = "number"});
      Tensor expected = op.run(x, number), got;
      for (int i = 0; i < 3; ++i) got = fast(x);
      EXPECT_EQ(differing(expected, got), 0) << op.name << ", s = " << number << ", " << c10::toString(type);
      EXPECT_GT(explain(fast).answered, 0u) << op.name;
    }
}

}  // namespace

TEST(Numbers, C3BFloat16) { compare_numbers(torch::kBFloat16); }
TEST(Numbers, C3Half) { compare_numbers(torch::kHalf); }

}  // namespace tenon::test
