// item() and masked_select give sizes that agree with those of arguments at first; catches sizes of data that are taken for those.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct SizesFromData : SizesTrap {
  static constexpr int64_t kCandidates = 12;

  Tensors inputs(const Sizes& sizes) override {
    int64_t batch = sizes[0], length = sizes[1], longest = sizes[2], positive = sizes[3];
    torch::Tensor lengths = torch::randint(1, longest + 1, {batch});
    lengths[0].fill_(longest);
    torch::Tensor candidates = -torch::rand({kCandidates}) - 0.1;
    candidates.narrow(0, 0, positive).neg_();
    return {torch::randn({batch, length, 4}).requires_grad_(), lengths, candidates};
  }
  Tensors run(const Tensors& in) override {
    auto longest = in[1].max().item<int64_t>();
    torch::Tensor mask = torch::arange(longest).unsqueeze(0) < in[1].unsqueeze(1);
    torch::Tensor head = in[0].narrow(1, 0, longest) * mask.unsqueeze(2);
    torch::Tensor chosen = in[2].masked_select(in[2] > 0);
    return {head.sum(1) / longest, head.flatten(0, 1).mean(0), chosen * 2 + chosen.size(0), chosen.sum() + in[0].sum(1)};
  }
};

// Batch, length, the longest of the lengths, positive candidates.
const std::vector<Sizes> kDataCalls = {{3, 8, 7, 3},  {4, 10, 9, 4}, {4, 10, 9, 4}, {5, 6, 5, 5},  {4, 10, 6, 4},
                                       {4, 10, 9, 7}, {3, 8, 7, 0},  {3, 8, 2, 1},  {5, 6, 5, 12}, {4, 10, 6, 2},
                                       {3, 8, 8, 3},  {4, 10, 9, 4}, {3, 8, 1, 2},  {3, 8, 7, 3},  {5, 6, 5, 5}};

}  // namespace

TEST(Traps, C5SizesFromDataChecked) { compare_at_sizes<SizesFromData>(Trust::checked, kDataCalls); }
// A program with graph breaks is not served under Trust::pure unless sizes of arguments differ.
TEST(Traps, C5SizesFromDataPure) { compare_at_sizes<SizesFromData>(Trust::pure, kDataCalls, /*is_served=*/false); }

}  // namespace tenon::test
