// Integers and floats of ops are computed from the size in C++; catches constants of the first sizes and wrong formulas for later ones.
#include <cmath>
#include <limits>

#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct IntegersOfSize : SizesTrap {
  Tensors inputs(const Sizes& sizes) override { return {torch::randn({sizes[0], 6}).requires_grad_()}; }
  Tensors run(const Tensors& in) override {
    const torch::Tensor& x = in[0];
    int64_t n = x.size(0);
    torch::Tensor positions = torch::arange(n * n - 3).slice(0, n / 3, n / 3 + n).unsqueeze(1);
    torch::Tensor scaled = x.roll(n % 5, 0) * n + x * (1.0 / static_cast<double>(n)) - x / std::sqrt(static_cast<double>(n));
    torch::Tensor powers = x.pow(n % 3 + 1).add(x, n - 4) + torch::full({n, 1}, n).triu(3 - n);
    int64_t end = n < 10 ? std::numeric_limits<int64_t>::max() : 8;
    return {scaled + positions, powers.clamp_max(n - 3), x.slice(0, n / 3).sum(0), x.slice(0, 0, end).mean(0), positions % n};
  }
};

const std::vector<Sizes> kIntegersCalls = {{3}, {4},  {4},  {5}, {6},  {3}, {7},  {8}, {8},  {9},
                                           {9}, {10}, {10}, {5}, {12}, {4}, {15}, {9}, {20}, {6}};

}  // namespace

TEST(Traps, C5IntegersOfSizeChecked) { compare_at_sizes<IntegersOfSize>(Trust::checked, kIntegersCalls); }
TEST(Traps, C5IntegersOfSizePure) { compare_at_sizes<IntegersOfSize>(Trust::pure, kIntegersCalls); }

}  // namespace tenon::test
