// Results are views of the argument and of each other, and view({-1, 4}) throws at some sizes; catches views with the sizes of other calls.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct ViewsReturned : SizesTrap {
  Tensors inputs(const Sizes& sizes) override { return {torch::randn({sizes[0], sizes[1]})}; }
  Tensors run(const Tensors& in) override {
    const torch::Tensor& x = in[0];
    int64_t rows = x.size(0), middle = rows / 2;
    torch::Tensor half = x.narrow(0, middle, rows - middle);
    half.mul_(2);
    torch::Tensor h = x + 1;
    torch::Tensor last = h.select(0, rows - 1);
    last.add_(half.sum(0));
    return {half, x.t(), h, h.narrow(1, 0, (x.size(1) + 1) / 2), last, x.view({-1, 4})};
  }
};

// view({-1, 4}) throws for 30, 9 and 6 elements.
const std::vector<Sizes> kViewsCalls = {{4, 6}, {8, 10}, {8, 10}, {6, 6}, {4, 6},  {5, 8}, {7, 4}, {7, 4}, {5, 6}, {5, 6}, {3, 3},
                                        {1, 4}, {4, 6},  {1, 4},  {3, 8}, {8, 10}, {2, 3}, {2, 2}, {5, 8}, {3, 4}, {9, 4}, {4, 9}};

}  // namespace

TEST(Traps, C5ViewsReturnedChecked) { compare_at_sizes<ViewsReturned>(Trust::checked, kViewsCalls); }
TEST(Traps, C5ViewsReturnedPure) { compare_at_sizes<ViewsReturned>(Trust::pure, kViewsCalls); }

}  // namespace tenon::test
