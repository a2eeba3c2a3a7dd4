// A whole step with losses that divide by counts of elements; catches a divisor, mask or momentum of another size.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct TrainingStepSizes : SizesTrap {
  torch::nn::Embedding table{torch::nn::EmbeddingOptions(20, 8).padding_idx(0)};
  torch::nn::Linear fc{8, 20};
  torch::optim::SGD optimizer{state(), torch::optim::SGDOptions(0.1).momentum(0.9)};

  Tensors inputs(const Sizes& sizes) override {
    return {torch::randint(0, 20, {sizes[0], sizes[1]}), torch::randint(0, 20, {sizes[0], sizes[1]})};
  }
  Tensors run(const Tensors& in) override {
    const std::vector<int64_t> batch = {0};
    optimizer.zero_grad();
    torch::Tensor h = torch::dropout(table(in[0]), 0.2, /*train=*/true);
    torch::Tensor logits = fc(h);
    torch::Tensor loss = torch::cross_entropy_loss(logits.flatten(0, 1), in[1].flatten(), {}, at::Reduction::Mean, /*ignore_index=*/3);
    loss = loss + logits.var(batch, /*unbiased=*/true).mean() * 0.01 + h.pow(2).mean();
    if (at::GradMode::is_enabled()) {
      loss.backward();
      optimizer.step();
    }
    return {loss.detach()};
  }
  Tensors state() override { return {table->weight, fc->weight, fc->bias}; }
  std::vector<Watched> watch() override { return {table, fc}; }
};

const std::vector<Sizes> kTrainingStepCalls = {{2, 4}, {3, 6}, {3, 6}, {4, 8}, {4, 5}, {2, 9}, {2, 9},
                                               {5, 3}, {3, 6}, {6, 4}, {2, 4}, {4, 8}, {2, 2}, {8, 4}};

}  // namespace

TEST(Traps, C5TrainingStepChecked) { compare_at_sizes<TrainingStepSizes>(Trust::checked, kTrainingStepCalls); }
TEST(Traps, C5TrainingStepPure) { compare_at_sizes<TrainingStepSizes>(Trust::pure, kTrainingStepCalls); }

}  // namespace tenon::test
