// A slice of a cache is written at position 2 * S in the first calls and anywhere later; catches a position that is computed from S.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct CacheSlices : SizesTrap {
  static constexpr int64_t kCapacity = 40;
  torch::Tensor cache = torch::zeros({2, kCapacity, 8});

  // The size of the second argument is the position.
  Tensors inputs(const Sizes& sizes) override { return {torch::randn({2, sizes[0], 8}), torch::randn({sizes[1]})}; }
  Tensors run(const Tensors& in) override {
    int64_t length = in[0].size(1), position = in[1].size(0), end = position + length;
    torch::Tensor scaled = in[0] * 2 + in[1].mean();
    cache.narrow(1, position, length).copy_(scaled);
    cache.narrow(1, end, kCapacity - end).zero_();
    torch::Tensor filled = cache.narrow(1, 0, end);
    torch::Tensor scores = torch::softmax(torch::matmul(in[0], filled.transpose(1, 2)), -1);
    return {torch::matmul(scores, filled), filled.sum(1), cache.narrow(1, position, length) * 3};
  }
  Tensors state() override { return {cache}; }
  std::vector<Watched> watch() override { return {cache}; }
};

const std::vector<Sizes> kCacheCalls = {{2, 4}, {3, 6},  {3, 6},  {4, 8}, {5, 10}, {4, 4}, {3, 8}, {4, 4},  {2, 4},
                                        {5, 3}, {5, 20}, {2, 38}, {1, 9}, {3, 6},  {4, 1}, {1, 9}, {2, 38}, {5, 20}};

}  // namespace

TEST(Traps, C5CacheSlicesChecked) { compare_at_sizes<CacheSlices>(Trust::checked, kCacheCalls); }
TEST(Traps, C5CacheSlicesPure) { compare_at_sizes<CacheSlices>(Trust::pure, kCacheCalls); }

}  // namespace tenon::test
