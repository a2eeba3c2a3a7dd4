// The arguments are halves of one tensor that swap their roles; catches offsets that are relative to the argument that is used first.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct HalvesSwap : SizesTrap {
  Tensors inputs(const Sizes& sizes) override {
    torch::Tensor both = torch::randn({2, sizes[0], 8});
    return {both.select(0, sizes[1]), both.select(0, 1 - sizes[1])};
  }
  Tensors run(const Tensors& in) override {
    torch::Tensor h = torch::tanh(in[0] * 2);
    torch::Tensor next = in[1];
    torch::Tensor mixed = h * 0.5 + next;
    next.copy_(mixed);
    return {h.sum(0), in[0] - next};
  }
};

const std::vector<Sizes> kHalvesCalls = {{4, 0}, {4, 0}, {4, 1}, {4, 1}, {4, 0}, {6, 0}, {6, 1},
                                         {6, 1}, {4, 1}, {3, 1}, {3, 0}, {6, 0}, {5, 1}, {4, 0}};

}  // namespace

TEST(Traps, C5HalvesSwapChecked) { compare_at_sizes<HalvesSwap>(Trust::checked, kHalvesCalls); }
TEST(Traps, C5HalvesSwapPure) { compare_at_sizes<HalvesSwap>(Trust::pure, kHalvesCalls); }

}  // namespace tenon::test
