// Compares may_overlap and may_overlap_itself with an enumeration of all elements.
#include "ir/graph/overlap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tenon::ir {

std::set<int64_t> elements(const FixedType& t) {
  std::set<int64_t> out = {t.offset};
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    std::set<int64_t> next;
    for (int64_t base : out)
      for (int64_t i = 0; i < t.sizes[d]; ++i) next.insert(base + i * t.strides[d]);
    out = std::move(next);
  }
  return out;
}

TEST(Overlap, AgreesWithEnumeration) {
  std::mt19937 random(7);
  auto pick = [&](int n) { return static_cast<int64_t>(random() % n); };
  size_t certain = 0;
  for (int round = 0; round < 20000; ++round) {
    FixedType a, b;
    int64_t rank = pick(4);
    for (int64_t d = 0; d < rank; ++d) {
      int64_t stride = pick(13);
      a.sizes.push_back(pick(4));
      b.sizes.push_back(pick(4));
      a.strides.push_back(stride);
      b.strides.push_back(round % 3 ? stride : pick(13));
    }
    a.offset = pick(12);
    b.offset = pick(12);
    std::set<int64_t> x = elements(a), y = elements(b);
    bool share = false;
    for (int64_t e : x) share |= y.count(e) > 0;
    bool may = may_overlap(a, b);
    EXPECT_EQ(share, may);
    certain += !may;
    int64_t count = 1;
    for (int64_t size : a.sizes) count *= size;
    if (count != static_cast<int64_t>(x.size()) && count > 0) EXPECT_TRUE(may_overlap_itself(a));
  }
  EXPECT_GT(certain, 1000u);
}

}  // namespace tenon::ir
