// Positions exceed a table at some sizes, and the program catches the error; catches an error that comes after the try block.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct PositionsBeyondTable : SizesTrap {
  static constexpr int64_t kPositions = 12;
  torch::Tensor table = torch::randn({kPositions, 4}).requires_grad_();

  Tensors inputs(const Sizes& sizes) override { return {torch::randn({sizes[0], 4})}; }
  Tensors run(const Tensors& in) override {
    torch::Tensor h = in[0] * 2;
    try {
      h = h + torch::embedding(table, torch::arange(in[0].size(0)));
    } catch (const std::exception&) {
      h = h.tanh();
    }
    return {h, h.sum(0)};
  }
  Tensors state() override { return {table}; }
  std::vector<Watched> watch() override { return {table}; }
};

// The table has rows for 12 positions.
const std::vector<Sizes> kPositionsCalls = {{4}, {6}, {6}, {9}, {13}, {12}, {13}, {14}, {4}, {14}, {7}, {12}};

}  // namespace

TEST(Traps, C5PositionsChecked) { compare_at_sizes<PositionsBeyondTable>(Trust::checked, kPositionsCalls); }
TEST(Traps, C5PositionsPure) { compare_at_sizes<PositionsBeyondTable>(Trust::pure, kPositionsCalls); }

}  // namespace tenon::test
