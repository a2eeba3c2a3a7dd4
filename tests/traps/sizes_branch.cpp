// C++ branches on the size: other ops, another dimension, min(S, 64); catches a graph that serves sizes of the other branch.
#include <algorithm>

#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct BranchOnSize : SizesTrap {
  torch::nn::Linear fc{8, 8};

  Tensors inputs(const Sizes& sizes) override { return {torch::randn({sizes[0], 8})}; }
  Tensors run(const Tensors& in) override {
    int64_t length = in[0].size(0), chunk = std::min<int64_t>(length, 64);
    torch::Tensor h = fc(in[0]);
    h = length > 32 ? h.tanh() : h.relu();
    torch::Tensor head = h.narrow(0, 0, chunk);
    torch::Tensor reduced = length % 2 == 0 ? head.sum(0) : head.amax(0);
    if (length >= 64) reduced = reduced + h.narrow(0, length - 64, 64).mean(0);
    int64_t dim = length > 20 ? 0 : 1;
    torch::Tensor square = in[0].narrow(0, 0, 8).sum(dim);  // Both branches give eight numbers.
    return {h, reduced * chunk, square};
  }
  Tensors state() override { return fc->parameters(); }
  std::vector<Watched> watch() override { return {fc}; }
};

const std::vector<Sizes> kBranchCalls = {{16}, {24}, {24}, {32}, {33},  {40}, {40}, {16}, {64}, {65},
                                         {96}, {96}, {24}, {9},  {130}, {33}, {20}, {21}, {64}, {31}};

}  // namespace

TEST(Traps, C5BranchOnSizeChecked) { compare_at_sizes<BranchOnSize>(Trust::checked, kBranchCalls); }
TEST(Traps, C5BranchOnSizePure) { compare_at_sizes<BranchOnSize>(Trust::pure, kBranchCalls); }

}  // namespace tenon::test
