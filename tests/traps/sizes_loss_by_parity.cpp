// The reduction of losses, an enum, is mean for odd sizes and sum for even ones; catches an enum that is taken for a size, such as S - 2.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct LossByParity : SizesTrap {
  torch::nn::Linear fc{6, 4};

  Tensors inputs(const Sizes& sizes) override { return {torch::randn({sizes[0], 6}), torch::randn({sizes[0], 4})}; }
  Tensors run(const Tensors& in) override {
    int64_t reduction = in[0].size(0) % 2 == 1 ? at::Reduction::Mean : at::Reduction::Sum;
    torch::Tensor h = fc(in[0]);
    torch::Tensor loss = torch::mse_loss(h, in[1], reduction) + torch::smooth_l1_loss(h, in[1], reduction, 0.5) +
                         torch::huber_loss(h, in[1], reduction, 0.7);
    if (at::GradMode::is_enabled()) loss.backward();
    return {loss.detach()};
  }
  Tensors state() override { return fc->parameters(); }
  std::vector<Watched> watch() override { return {fc}; }
};

const std::vector<Sizes> kLossByParityCalls = {{3}, {4}, {4}, {3}, {3}, {3}, {5}, {6}, {6}, {5}, {5}, {4}, {8}, {7}, {7}, {8}, {3}, {6}};

}  // namespace

TEST(Traps, C5LossByParityChecked) { compare_at_sizes<LossByParity>(Trust::checked, kLossByParityCalls); }
TEST(Traps, C5LossByParityPure) { compare_at_sizes<LossByParity>(Trust::pure, kLossByParityCalls); }

}  // namespace tenon::test
