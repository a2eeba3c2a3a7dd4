// A loop has S steps, and chunk(4) gives a shorter last part or fewer parts at later sizes; catches op sequences of other sizes.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct TimeSteps : SizesTrap {
  torch::Tensor weight = torch::randn({4, 4}).requires_grad_();

  Tensors inputs(const Sizes& sizes) override {
    return {torch::randn({sizes[0], sizes[1], 4}), torch::randn({sizes[2], 3}).requires_grad_()};
  }
  Tensors run(const Tensors& in) override {
    torch::Tensor h = torch::zeros({in[0].size(1), 4});
    Tensors steps;
    for (int64_t t = 0; t < in[0].size(0); ++t) {
      h = torch::tanh(in[0].select(0, t) + torch::matmul(h, weight));
      steps.push_back(h);
    }
    Tensors parts = in[1].chunk(4);
    torch::Tensor total = parts[0].sum(0);
    for (size_t i = 1; i < parts.size(); ++i) total = total + parts[i].sum(0) * static_cast<double>(i + 1);
    return {torch::stack(steps), total, torch::cat({parts.back(), in[1], parts.front() * 2}), torch::cat(steps, 1).mean(0)};
  }
  Tensors state() override { return {weight}; }
  std::vector<Watched> watch() override { return {weight}; }
};

// Steps, batch, rows that are divided.
const std::vector<Sizes> kTimeStepsCalls = {{3, 2, 8},  {3, 4, 8},  {3, 4, 12}, {3, 4, 12}, {5, 4, 12}, {4, 4, 12}, {4, 3, 10},
                                            {3, 2, 9},  {5, 2, 11}, {4, 2, 5},  {3, 5, 8},  {1, 2, 16}, {3, 4, 10}, {5, 3, 9},
                                            {4, 4, 12}, {3, 2, 3},  {3, 4, 8},  {4, 3, 10}, {1, 3, 9},  {3, 1, 4}};

}  // namespace

TEST(Traps, C5TimeStepsChecked) { compare_at_sizes<TimeSteps>(Trust::checked, kTimeStepsCalls); }
TEST(Traps, C5TimeStepsPure) { compare_at_sizes<TimeSteps>(Trust::pure, kTimeStepsCalls); }

}  // namespace tenon::test
