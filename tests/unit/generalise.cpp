// One graph from graphs of several sizes, and whether a graph of another size has its numbers.
#include "ir/graph/generalise.h"

#include <gtest/gtest.h>

#include "ir/graph/parse.h"
#include "ir/graph/print.h"
#include "ir/graph/verify.h"

namespace tenon::ir {
namespace {

std::optional<Graph> generalised(const std::vector<const Graph*>& graphs) {
  return generalise(graphs, [](const Node&, size_t argument) { return argument > 0; });
}

std::string n(int64_t number) { return std::to_string(number); }

// x[b, s, 8] viewed as [b*s, 8], without the last row.
Graph rows(int64_t b, int64_t s, int64_t dropped = 1) {
  std::string type = "f32[" + n(b * s - dropped) + ", 8]";
  return parse("graph @f {\n  input %0 : f32[" + n(b) + ", " + n(s) + ", 8] argument \"x\"\n  %1 : f32[" + n(b * s) +
               ", 8] &%0 = aten::view(%0, i[" + n(b * s) + ", 8])\n  %2 : " + type + " &%1 = aten::slice.Tensor(%1, 0, 0, " +
               n(b * s - dropped) + ", 1)\n  %3 : " + type + " = aten::sin(%2)\n  return %3\n}\n");
}

Graph halves(int64_t s) {
  int64_t half = (s + 1) / 2;
  return parse("graph @f {\n  input %0 : f32[" + n(s) + "] argument \"x\"\n  %1 : f32[" + n(half) +
               "] = aten::avg_pool(%0, 2)\n  return %1\n}\n");
}

}  // namespace

TEST(Generalise, SizesOfInputsAreSymbols) {
  Graph a = rows(3, 5), b = rows(4, 9);
  auto found = generalised({&a, &b});
  ASSERT_TRUE(found);
  verify(*found);
  EXPECT_EQ(print(found->values[0].type), "f32[s0, s1, 8]");
  EXPECT_EQ(print(found->values[3].type), "f32[s0*s1-1, 8]");
  EXPECT_EQ(found->symbols, (SymbolValues{4, 9}));
  EXPECT_EQ(symbols_of(*found, rows(7, 2)), (SymbolValues{7, 2}));
  EXPECT_EQ(symbols_of(*found, a), (SymbolValues{3, 5}));
}

TEST(Generalise, OtherNumbersDoNotMatch) {
  Graph a = rows(3, 5), b = rows(4, 9);
  auto found = generalised({&a, &b});
  ASSERT_TRUE(found);
  EXPECT_FALSE(symbols_of(*found, rows(7, 4, 2)));
  EXPECT_FALSE(symbols_of(*found, rows(1, 9)));  // A symbol is at least 2.
  EXPECT_FALSE(symbols_of(*found, halves(9)));
  Graph other = rows(7, 4);
  other.nodes[2].op = "aten::cos";
  EXPECT_FALSE(symbols_of(*found, other));
}

TEST(Generalise, EqualSizesAreOneSymbol) {
  Graph a = rows(3, 3), b = rows(5, 5);
  auto found = generalised({&a, &b});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->symbols.size(), 1u);
  EXPECT_TRUE(symbols_of(*found, rows(6, 6)));
  EXPECT_FALSE(symbols_of(*found, rows(6, 7)));
}

TEST(Generalise, AWrongGuessNeedsAnotherGraph) {
  Graph a = halves(8), b = halves(12), c = halves(9);
  auto two = generalised({&a, &b});
  ASSERT_TRUE(two);  // s0//2, as far as even sizes tell.
  EXPECT_TRUE(symbols_of(*two, halves(20)));
  EXPECT_FALSE(symbols_of(*two, c));
  auto three = generalised({&a, &b, &c});
  ASSERT_TRUE(three);
  EXPECT_TRUE(symbols_of(*three, halves(21)));
  EXPECT_TRUE(symbols_of(*three, halves(20)));
}

TEST(Generalise, WhatIsNotExplainedIsRefused) {
  Graph a = rows(3, 5), b = rows(4, 9, 7), c = rows(5, 11, 2);
  EXPECT_FALSE(generalised({&a, &b, &c}));
  Graph other = rows(4, 9);
  other.values[3].type.dtype = DType::f64;
  EXPECT_FALSE(generalised({&a, &other}));
  Graph one = rows(1, 5);
  EXPECT_FALSE(generalised({&a, &one}));
}

TEST(Generalise, AnArgumentThatIsNoSizeStaysANumber) {
  Graph a = rows(3, 5), b = rows(4, 9);
  EXPECT_TRUE(generalise({&a, &b}, [](const Node&, size_t) { return true; }));
  EXPECT_FALSE(generalise({&a, &b}, [](const Node& node, size_t) { return node.op != "aten::slice.Tensor"; }));
}

TEST(Generalise, ASymbolicGraphHasAText) {
  Graph a = rows(3, 5), b = rows(4, 9);
  auto found = generalised({&a, &b});
  ASSERT_TRUE(found);
  found->conditions.push_back({Size::symbol(0) * 2, 64, Relation::less, "fusion"});
  std::string text = print(*found);
  EXPECT_EQ(print(parse(text)), text);
  EXPECT_NE(text.find("condition 2*s0 < 64 \"fusion\""), std::string::npos) << text;
}

}  // namespace tenon::ir
