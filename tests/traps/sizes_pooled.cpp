// Convolution and pooling see multiples of 8 first and odd sizes later; catches S / 2 where a size is (S + 1) / 2 or S / 2 / 2.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct PooledSizes : SizesTrap {
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(3, 4, 3).stride(2).padding(1)};

  Tensors inputs(const Sizes& sizes) override { return {torch::randn({sizes[0], 3, sizes[1], sizes[2]})}; }
  Tensors run(const Tensors& in) override {
    torch::Tensor h = torch::relu(conv(in[0]));
    torch::Tensor nested = torch::avg_pool2d(torch::max_pool2d(h, 2), 2);
    torch::Tensor rounded_up = torch::max_pool2d(in[0], 2, 2, 0, 1, /*ceil_mode=*/true);
    torch::Tensor padded = torch::constant_pad_nd(rounded_up, {1, 0, 0, 2});
    return {nested, rounded_up.mean({2, 3}), padded.sum(3) / padded.size(3), h.flatten(1).amax(1)};
  }
  Tensors state() override { return conv->parameters(); }
  std::vector<Watched> watch() override { return {conv}; }
  double tolerance() override { return 1e-4; }  // Compiled convolutions see images in channels_last, which changes bits.
};

const std::vector<Sizes> kPooledCalls = {{2, 16, 16}, {2, 24, 32}, {2, 24, 32}, {3, 32, 24}, {2, 17, 16}, {2, 16, 17}, {2, 17, 16},
                                         {3, 19, 22}, {2, 24, 32}, {3, 22, 19}, {4, 18, 18}, {3, 19, 22}, {1, 21, 16}, {2, 16, 16}};

}  // namespace

TEST(Traps, C5PooledChecked) { compare_at_sizes<PooledSizes>(Trust::checked, kPooledCalls); }
TEST(Traps, C5PooledPure) { compare_at_sizes<PooledSizes>(Trust::pure, kPooledCalls); }

}  // namespace tenon::test
