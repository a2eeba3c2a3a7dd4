// topk takes k = L / 2 of even lengths first and of odd ones later, and argmax searches along L; catches indices and k of other lengths.
#include <algorithm>

#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct TopKOfSize : SizesTrap {
  Tensors inputs(const Sizes& sizes) override { return {torch::randn({sizes[0], sizes[1]}).requires_grad_()}; }
  Tensors run(const Tensors& in) override {
    const torch::Tensor& x = in[0];
    int64_t length = x.size(1), k = std::max<int64_t>(1, length / 2);
    auto [values, indices] = torch::topk(x, k, 1);
    auto [sorted, order] = torch::sort(x, 1);
    torch::Tensor kept = torch::zeros_like(x).scatter(1, indices, values);
    torch::Tensor first = x.gather(1, order.narrow(1, length - k, k));
    return {values, indices, kept * k, first.sum(1), x.argmax(1), x.argmax(0), x.argmin(), sorted.cumsum(1)};
  }
};

const std::vector<Sizes> kTopKCalls = {{2, 4}, {3, 6}, {3, 6}, {4, 8},  {4, 7}, {2, 5}, {5, 5}, {3, 1},
                                       {1, 6}, {3, 6}, {4, 7}, {6, 12}, {2, 4}, {6, 3}, {3, 2}, {12, 6}};

}  // namespace

TEST(Traps, C5TopKChecked) { compare_at_sizes<TopKOfSize>(Trust::checked, kTopKCalls); }
TEST(Traps, C5TopKPure) { compare_at_sizes<TopKOfSize>(Trust::pure, kTopKCalls); }

}  // namespace tenon::test
