// Attention, norms and embeddings with gradients, whose ops have shape rules of Tenon's own: queries in two layouts, with and without a
// mask, one query, one head. A wrong layout of a result is an error of the view that follows.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

enum class Layout { heads_outside, heads_inside, sliced };

template <Layout kLayout, bool kIsMasked>
struct AttentionOfSizes : SizesTrap {
  static constexpr int64_t kWidth = 12;
  torch::nn::Embedding table{20, kWidth};
  torch::nn::LayerNorm rows{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear in{torch::nn::LinearOptions(kWidth, 3 * kWidth).bias(false)};
  torch::nn::BatchNorm1d norm{kWidth};

  // A batch, a number of queries, a number of keys and a number of heads.
  Tensors inputs(const Sizes& sizes) override {
    return {torch::randint(0, 20, {sizes[0], sizes[1]}), torch::randint(0, 20, {sizes[0], sizes[2]}), torch::randn({sizes[1], sizes[2]}),
            torch::zeros({sizes[3]})};
  }
  Tensors state() override {
    return {table->weight, rows->weight, rows->bias, in->weight, norm->weight, norm->bias, norm->running_mean, norm->running_var};
  }
  std::vector<Watched> watch() override { return {table, rows, in, norm}; }
  double tolerance() override { return 1e-3; }

  Tensors run(const Tensors& given) override {
    int64_t heads = given[3].size(0);
    auto parts = [&](const torch::Tensor& ids, int64_t part) {
      torch::Tensor y = in(rows(table(ids))).narrow(-1, part * kWidth, kWidth);
      if (kLayout != Layout::sliced) y = y.contiguous();
      y = y.view({ids.size(0), ids.size(1), heads, -1}).transpose(1, 2);
      return kLayout == Layout::heads_outside ? y.contiguous() : y;
    };
    torch::Tensor q = parts(given[0], 0), k = parts(given[1], 1), v = parts(given[1], 2);
    torch::Tensor out = torch::scaled_dot_product_attention(q, k, v, kIsMasked ? std::optional(given[2]) : std::nullopt);
    if (kLayout == Layout::heads_inside) out = out.transpose(1, 2).view({q.size(0), q.size(2), kWidth});
    if (kLayout == Layout::heads_outside) out = out.view({q.size(0), -1}).view({q.size(0), q.size(2), kWidth});
    if (kLayout == Layout::sliced) out = out.transpose(1, 2).reshape({q.size(0), q.size(2), kWidth});
    return {norm->forward(out.transpose(1, 2).contiguous()), out * 2};
  }
};

const std::vector<Sizes> kAttentions = {{2, 5, 5, 3}, {3, 7, 7, 3}, {4, 6, 9, 3}, {2, 1, 8, 3},  {1, 9, 4, 3},
                                        {5, 3, 3, 1}, {5, 8, 2, 2}, {2, 1, 1, 3}, {3, 11, 12, 3}};

void compare_attention(Trust trust) {
  compare_at_sizes<AttentionOfSizes<Layout::heads_outside, false>>(trust, kAttentions);
  compare_at_sizes<AttentionOfSizes<Layout::heads_inside, false>>(trust, kAttentions);
  compare_at_sizes<AttentionOfSizes<Layout::heads_inside, true>>(trust, kAttentions);
  compare_at_sizes<AttentionOfSizes<Layout::sliced, true>>(trust, kAttentions);
}

}  // namespace

TEST(Traps, C5AttentionChecked) { compare_attention(Trust::checked); }
TEST(Traps, C5AttentionPure) { compare_attention(Trust::pure); }

}  // namespace tenon::test
