// Two batches are equal in the first calls; later one of them is 1 or both are 0; catches equal sizes that are taken for one size.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct BroadcastSizes : SizesTrap {
  torch::Tensor bias = torch::randn({6}).requires_grad_();

  Tensors inputs(const Sizes& sizes) override {
    return {torch::randn({sizes[0], 6}), torch::randn({sizes[1], 6}).requires_grad_(), torch::randn({sizes[0]}).requires_grad_()};
  }
  Tensors run(const Tensors& in) override {
    torch::Tensor gated = in[0] * in[2].unsqueeze(1);
    torch::Tensor both = gated * in[1] + bias;
    return {both, (gated + in[1]).mean(0, true) * in[1], gated - gated.sum(1, true), torch::where(both > 0, in[1], gated)};
  }
  Tensors state() override { return {bias}; }
  std::vector<Watched> watch() override { return {bias}; }
};

const std::vector<Sizes> kBroadcastCalls = {{3, 3}, {4, 4}, {4, 4}, {4, 1}, {5, 1}, {5, 5}, {0, 0}, {0, 1}, {1, 1}, {1, 4},
                                            {6, 6}, {0, 0}, {2, 2}, {3, 1}, {1, 4}, {4, 4}, {1, 1}, {1, 3}, {5, 1}, {3, 3}};

}  // namespace

TEST(Traps, C5BroadcastChecked) { compare_at_sizes<BroadcastSizes>(Trust::checked, kBroadcastCalls); }
TEST(Traps, C5BroadcastPure) { compare_at_sizes<BroadcastSizes>(Trust::pure, kBroadcastCalls); }

}  // namespace tenon::test
