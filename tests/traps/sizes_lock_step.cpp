// Batch and length are tied in the first calls and free in later ones; catches a graph that computes one of them from the other.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct LockStepSizes : SizesTrap {
  torch::nn::Linear fc{8, 8};

  Tensors inputs(const Sizes& sizes) override { return {torch::randn({sizes[0], sizes[1], 8})}; }
  Tensors run(const Tensors& in) override {
    int64_t batch = in[0].size(0), length = in[0].size(1);
    torch::Tensor h = fc(in[0]) + torch::arange(length).unsqueeze(1);
    torch::Tensor scores = torch::softmax(torch::matmul(h, h.transpose(1, 2)) / length, -1);
    torch::Tensor rows = torch::matmul(scores, h).reshape({batch * length, 8});
    torch::Tensor swapped = rows.view({length, batch, 8}).sum(1) * batch;
    return {scores.mean(0), rows.view({batch, length, 8}).mean(0) + in[0].sum(0) / batch, swapped};
  }
  Tensors state() override { return fc->parameters(); }
  std::vector<Watched> watch() override { return {fc}; }
};

void compare_lock_step(Trust trust) {
  // length = batch + 6, length = batch and length = 2 * batch at first.
  compare_at_sizes<LockStepSizes>(
      trust, {{2, 8}, {3, 9}, {3, 9}, {4, 10}, {2, 8}, {5, 11}, {4, 8}, {4, 8}, {3, 9}, {8, 4}, {2, 9}, {9, 2}, {4, 10}});
  compare_at_sizes<LockStepSizes>(trust, {{3, 3}, {5, 5}, {5, 5}, {4, 4}, {3, 5}, {5, 3}, {3, 5}, {4, 4}, {7, 4}, {3, 3}});
  compare_at_sizes<LockStepSizes>(trust, {{2, 4}, {3, 6}, {3, 6}, {5, 10}, {4, 6}, {6, 4}, {2, 4}, {4, 6}, {5, 10}, {6, 12}});
}

}  // namespace

TEST(Traps, C5LockStepChecked) { compare_lock_step(Trust::checked); }
TEST(Traps, C5LockStepPure) { compare_lock_step(Trust::pure); }

}  // namespace tenon::test
