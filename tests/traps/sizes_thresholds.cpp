// Sizes cross 2^20 reduced elements, 4 rows, 256 keys and 4096 copied elements; catches a graph that serves sizes beyond its conditions.
#include "traps/sizes.h"

namespace tenon::test {
namespace {

struct Thresholds : SizesTrap {
  torch::nn::Linear fc{16, 16}, qkv{16, 48};

  Tensors inputs(const Sizes& sizes) override {
    return {torch::randn({sizes[0]}), torch::randn({sizes[1], 16}), torch::randn({2, sizes[2], 16}), torch::randn({sizes[3], 32}),
            torch::randn({sizes[3], 32})};
  }
  Tensors run(const Tensors& in) override {
    auto heads = [&](const torch::Tensor& t) { return t.view({2, -1, 2, 8}).transpose(1, 2); };
    Tensors parts = qkv(in[2]).chunk(3, -1);
    torch::Tensor q = heads(parts[0]), k = heads(parts[1]), v = heads(parts[2]);
    torch::Tensor attended = torch::matmul(torch::softmax(torch::matmul(q, k.transpose(-1, -2)) / 2.8, -1), v);
    return {(in[0] * in[0]).mean(), in[0].amax(), torch::relu(fc(in[1])), attended, torch::cat({in[3], in[4]}, 1)};
  }
  Tensors state() override { return {fc->weight, fc->bias, qkv->weight, qkv->bias}; }
  std::vector<Watched> watch() override { return {fc, qkv}; }
};

constexpr int64_t kMegaElements = int64_t{1} << 20;

// Reduced elements, rows of the product, keys, rows of the concatenation.
const std::vector<Sizes> kThresholdsCalls = {
    {1000, 2, 200, 40}, {1500, 3, 240, 50},          {1500, 3, 240, 50}, {kMegaElements + 8, 4, 256, 64},
    {2000, 5, 300, 65}, {kMegaElements, 6, 255, 63}, {1500, 3, 240, 50}, {2000, 5, 257, 100},
    {1000, 2, 200, 40}, {1000, 4, 300, 64}};

}  // namespace

TEST(Traps, C5ThresholdsChecked) { compare_at_sizes<Thresholds>(Trust::checked, kThresholdsCalls); }
TEST(Traps, C5ThresholdsPure) { compare_at_sizes<Thresholds>(Trust::pure, kThresholdsCalls); }

}  // namespace tenon::test
