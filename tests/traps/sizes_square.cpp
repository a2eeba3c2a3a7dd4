// The same op on a matrix and on its transpose, and on a tensor with itself and with another one: ops that look alike where sizes are
// square, but whose results have other strides. A wrong layout of a result is an error of the view that follows.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct SquareSizes : SizesTrap {
  Tensors inputs(const Sizes& sizes) override { return {torch::randn({sizes[0], sizes[1]}), torch::randn({sizes[0], sizes[1]})}; }
  Tensors run(const Tensors& in) override {
    torch::Tensor a = in[0].exp(), b = in[0].t().exp(), c = in[1].exp(), d = in[1].t().exp();
    torch::Tensor twice = a.mul(a), product = a.mul(c), mixed = b.mul(d);
    return {a.view({-1}),     b.t().view({-1}),   (c + 1).view({-1}),  (d.t() + 1).view({-1}),
            twice.view({-1}), product.view({-1}), mixed.t().view({-1})};
  }
  double tolerance() override { return 1e-5; }
};

const std::vector<Sizes> kSquares = {{3, 4}, {5, 6}, {7, 7}, {8, 8}, {9, 2}, {4, 1}, {1, 4}, {2, 2}, {1, 1}, {6, 6}};

}  // namespace

TEST(Traps, C5SquareChecked) { compare_at_sizes<SquareSizes>(Trust::checked, kSquares); }
TEST(Traps, C5SquarePure) { compare_at_sizes<SquareSizes>(Trust::pure, kSquares); }

}  // namespace tenon::test
