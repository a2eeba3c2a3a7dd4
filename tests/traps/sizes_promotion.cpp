// Integers in other layouts are converted to floats; catches the layout of results with dimensions of size 1, which follows ATen's
// temporaries.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct PromotedSizes : SizesTrap {
  Tensors inputs(const Sizes& sizes) override {
    torch::Tensor bytes = torch::randint(0, 9, {sizes[1], sizes[0]}, torch::kByte);
    return {bytes.t(), bytes.t().slice(1, 0, std::nullopt, 2), torch::randn({sizes[0], 1}, torch::kDouble).expand({sizes[0], sizes[1]})};
  }
  Tensors run(const Tensors& in) override {
    return {in[0].exp(), in[1].sin() * 2, in[0] + in[2], in[1].unsqueeze(0) / 3, (in[1].sqrt() + 0.5).t().cos()};
  }
};

const std::vector<Sizes> kPromotionCalls = {{3, 4}, {5, 6}, {2, 2}, {1, 2}, {2, 1}, {1, 1}, {4, 1},
                                            {1, 5}, {0, 3}, {3, 0}, {1, 2}, {2, 2}, {6, 3}};

}  // namespace

TEST(Traps, C5PromotionChecked) { compare_at_sizes<PromotedSizes>(Trust::checked, kPromotionCalls); }
TEST(Traps, C5PromotionPure) { compare_at_sizes<PromotedSizes>(Trust::pure, kPromotionCalls); }

}  // namespace tenon::test
