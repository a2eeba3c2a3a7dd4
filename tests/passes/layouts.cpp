// Compares passes/layout.h with ATen on random sizes and strides.
#include "passes/layout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>

#include "passes/eager_graph.h"

namespace tenon::test {
namespace {

struct Random {
  std::mt19937 engine{11};
  int64_t below(int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(n)); }

  std::vector<int64_t> sizes() {
    std::vector<int64_t> out(static_cast<size_t>(below(5)));
    for (int64_t& size : out) size = below(12) == 0 ? 0 : 1 + below(4);
    return out;
  }
  // Returns a tensor with random transposes, slices and expansions.
  at::Tensor tensor() {
    at::Tensor t = at::empty(sizes());
    for (int64_t d = 0; d < t.dim(); ++d) {
      if (below(3) == 0) t = t.transpose(d, below(t.dim()));
      if (below(4) == 0) t = t.slice(d, below(2), t.size(d), 1 + below(2));
      if (below(4) == 0 && t.size(d) == 1) {
        std::vector<int64_t> wide = t.sizes().vec();
        wide[static_cast<size_t>(d)] = 1 + below(3);
        t = t.expand(wide);
      }
      if (below(6) == 0) t = t.unsqueeze(d);
    }
    return t;
  }
  // Returns random sizes with this element count.
  std::vector<int64_t> reshaped(int64_t count) {
    std::vector<int64_t> out;
    for (int64_t rest = count; rest > 1 || below(3) == 0;) {
      int64_t size = 1 + below(rest);
      while (rest % size) --size;
      out.insert(out.begin() + below(static_cast<int64_t>(out.size()) + 1), size);
      rest /= size;
    }
    return out;
  }
};

TEST(Layouts, AreWhatAtenMakes) {
  Random random;
  size_t viewed = 0, refused = 0, dense = 0, expanded = 0;
  for (int round = 0; round < 20000; ++round) {
    at::Tensor t = random.tensor();
    EXPECT_EQ(passes::is_plain(type_of(t)), t.storage_offset() == 0 && t.strides() == at::empty(t.sizes()).strides());
    if (t.numel() == 0) continue;
    EXPECT_EQ(passes::is_dense(type_of(t)), t.is_non_overlapping_and_dense()) << t.sizes() << t.strides();
    dense += t.is_non_overlapping_and_dense();

    std::vector<int64_t> sizes = random.reshaped(t.numel());
    auto strides = passes::view_strides(type_of(t), sizes);
    try {
      at::Tensor view = t.view(sizes);
      EXPECT_TRUE(strides && strides->numbers() == view.strides().vec()) << t.sizes() << t.strides() << " " << at::IntArrayRef(sizes);
      ++viewed;
    } catch (const c10::Error&) {
      EXPECT_FALSE(strides) << t.sizes() << t.strides() << " " << at::IntArrayRef(sizes);
      ++refused;
    }

    std::vector<int64_t> wide = t.sizes().vec();
    for (int64_t& size : wide)
      if (random.below(3) == 0) size = 1 + random.below(3);
    while (random.below(2)) wide.insert(wide.begin(), 1 + random.below(3));
    auto spread = passes::expand_strides(type_of(t), wide);
    try {
      at::Tensor view = t.expand(wide);
      EXPECT_TRUE(spread && spread->numbers() == view.strides().vec()) << t.sizes() << t.strides() << " " << at::IntArrayRef(wide);
      ++expanded;
    } catch (const c10::Error&) {
      EXPECT_FALSE(spread);
    }
  }
  for (size_t count : {viewed, refused, dense, expanded}) EXPECT_GT(count, 1000u);
}

}  // namespace
}  // namespace tenon::test
