// Symbolic sizes: arithmetic and comparisons agree with numbers, and no comparison is decided that some values contradict.
#include "ir/graph/size.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "ir/graph/graph.h"

namespace tenon::ir {
namespace {

constexpr size_t kSymbols = 3;

struct RandomSize {
  Size size;
  int64_t number;  // Its value for the current values of the symbols, computed beside it.
};

class RandomSizes {
 public:
  RandomSizes(uint64_t seed, const SymbolValues& values) : random_(seed), values_(values) {}

  RandomSize make(int depth) {
    if (depth == 0 || below(4) == 0) {
      if (below(2) == 0) {
        int64_t n = static_cast<int64_t>(below(9)) - 2;
        return {n, n};
      }
      size_t s = below(kSymbols);
      return {Size::symbol(static_cast<int32_t>(s)), values_[s]};
    }
    RandomSize a = make(depth - 1), b = make(depth - 1);
    switch (below(4)) {
      case 0:
        return {a.size + b.size, a.number + b.number};
      case 1:
        return {a.size - b.size, a.number - b.number};
      case 2:
        return {a.size * b.size, a.number * b.number};
      default:
        int64_t divisor = 1 + static_cast<int64_t>(below(6));
        int64_t quotient = a.number / divisor - (a.number % divisor < 0 ? 1 : 0);
        return {floor_divide(a.size, divisor), quotient};
    }
  }

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  std::mt19937_64 random_;
  const SymbolValues& values_;
};

SymbolValues random_values(uint64_t seed) {
  std::mt19937_64 random(seed);
  SymbolValues out;
  for (size_t s = 0; s < kSymbols; ++s) out.push_back(kMinSymbol + static_cast<int64_t>(random() % 9));
  return out;
}

}  // namespace

TEST(Sizes, ArithmeticAgreesWithNumbers) {
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    SymbolValues values = random_values(seed);
    RandomSize made = RandomSizes(seed, values).make(4);
    ASSERT_EQ(made.size.value(values), made.number) << made.size.text();
  }
}

// Builds the same two expressions for many values: whatever is decided without a condition holds for all of them.
TEST(Sizes, ComparisonsHoldForAllValuesOrBecomeConditions) {
  size_t decided = 0, asked = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    SymbolValues first = random_values(seed);
    RandomSizes make(seed, first);
    Size a = make.make(3).size, b = make.make(3).size;
    std::vector<Condition> conditions;
    bool less, equal;
    {
      ConditionScope scope(first, "test", conditions);
      less = a < b;
      equal = a == b;
    }
    ASSERT_EQ(less, a.value(first) < b.value(first)) << a.text() << " < " << b.text();
    ASSERT_EQ(equal, a.value(first) == b.value(first)) << a.text() << " == " << b.text();
    (conditions.empty() ? decided : asked) += 1;
    for (uint64_t other = 0; other < 50; ++other) {
      SymbolValues values = random_values(seed * 1000 + other);
      bool holds = std::all_of(conditions.begin(), conditions.end(), [&](const Condition& c) { return c.holds(values); });
      if (!holds) continue;
      ASSERT_EQ(less, a.value(values) < b.value(values)) << a.text() << " < " << b.text();
      ASSERT_EQ(equal, a.value(values) == b.value(values)) << a.text() << " == " << b.text();
    }
  }
  EXPECT_GT(decided, 1000u);
  EXPECT_GT(asked, 100u);
}

TEST(Sizes, EqualExpressionsAreOneObject) {
  Size s0 = Size::symbol(0), s1 = Size::symbol(1);
  EXPECT_TRUE(same((s0 + 1) * s1, s1 * s0 + s1));
  EXPECT_TRUE(same(s0 - s0, 0));
  EXPECT_TRUE(same(floor_divide(s0 * 4 + 6, 4), s0 + floor_divide(Size(6), 4)));
  EXPECT_TRUE(same(floor_divide(s0 * 5, 2), s0 * 2 + floor_divide(s0, 2)));
  EXPECT_FALSE(same(s0, s1));
  EXPECT_EQ((floor_divide(s0, 2) * 4 + 1).text(), "4*(s0//2)+1");
  EXPECT_EQ((s0 * s1 - s1 * 3).text(), "s0*s1-3*s1");
}

// What ordinary programs compare needs no condition.
TEST(Sizes, CommonComparisonsAreDecided) {
  Size s0 = Size::symbol(0), s1 = Size::symbol(1);
  EXPECT_FALSE(s0 == 1);
  EXPECT_FALSE(s0 == 0);
  EXPECT_TRUE(s0 * s1 > s1);
  EXPECT_TRUE(s1 * 768 > 768);
  EXPECT_TRUE(s0 * s1 * 64 > s1 * 64);
  EXPECT_FALSE(s0 * 2 == 2);
  EXPECT_TRUE(s0 + 1 > s0);
}

// Each holds for the recorded values, but not for all values.
TEST(Sizes, ComparisonsThatDependOnValuesBecomeConditions) {
  std::vector<Condition> conditions;
  SymbolValues values = {9, 9};
  ConditionScope scope(values, "test", conditions);
  Size s0 = Size::symbol(0), s1 = Size::symbol(1);
  EXPECT_TRUE(s0 > 2);
  EXPECT_TRUE(s1 * 3 < s0 * s1);
  EXPECT_TRUE(floor_divide(s0, 3) > 0);
  EXPECT_TRUE(s0 < 10);
  EXPECT_EQ(conditions.size(), 4u);
  for (const Condition& c : conditions) {
    EXPECT_TRUE(c.holds(values)) << c.text();
    EXPECT_FALSE(c.holds({2, 2}) && c.holds({99, 99})) << c.text();
  }
}

TEST(Sizes, AComparisonOutsideOfACompilationIsRefused) {
  EXPECT_THROW((void)(Size::symbol(0) == 64), InternalError);
  EXPECT_THROW((void)Size::symbol(0).number(), InternalError);
  EXPECT_THROW((void)Size::symbol(3).value({2, 3}), InternalError);
}

TEST(Sizes, ConditionsSayWhatWasAnswered) {
  std::vector<Condition> conditions;
  SymbolValues values = {8, 3};
  ConditionScope scope(values, "pass fold", conditions);
  Size s0 = Size::symbol(0), s1 = Size::symbol(1);
  EXPECT_TRUE(s0 == 8);
  EXPECT_FALSE(s0 < s1);
  EXPECT_TRUE(s0 == 8);  // Known already.
  ASSERT_EQ(conditions.size(), 2u);
  EXPECT_EQ(conditions[0].text(), "s0 == 8");
  EXPECT_EQ(conditions[1].text(), "s0 >= s1");
  EXPECT_EQ(conditions[0].origin, "pass fold");
  EXPECT_TRUE(conditions[0].holds({8, 9}));
  EXPECT_FALSE(conditions[1].holds({8, 9}));
}

TEST(Sizes, StridesOfSymbolicSizes) {
  Size s0 = Size::symbol(0), s1 = Size::symbol(1);
  SizeList strides = contiguous_strides(SizeList{s0, s1, 64});
  EXPECT_TRUE(same(strides, SizeList{s1 * 64, 64, 1}));
  EXPECT_EQ(extent_of(TensorType{DType::f32, {s0, s1, 64}, strides}).value({3, 5}), 3 * 5 * 64);
}

}  // namespace tenon::ir
