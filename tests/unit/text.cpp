// The text form of graphs: constants survive it, and errors in damaged text name the position.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "ir/graph/parse.h"
#include "ir/graph/print.h"
#include "ir/graph/verify.h"

namespace tenon::ir {

Graph with_constant(Attribute attribute) {
  Graph g;
  ValueId x = g.add_value({DType::f32, {2}, {1}, 0});
  g.inputs.push_back({x, InputRole::argument, "x"});
  Node node;
  node.op = "test::op";
  node.args = {x, std::move(attribute)};
  ValueId y = g.add_value({DType::bf16, {2, 0}, {1, 1}, 3});
  node.results.push_back({false, {y}});
  g.nodes.push_back(node);
  g.outputs = {y};
  return g;
}

TEST(Text, EveryDoubleSurvives) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    uint64_t bits = random();
    double number;
    std::memcpy(&number, &bits, sizeof number);
    if (std::isnan(number)) continue;
    Graph again = parse(print(with_constant(number)));
    double got = std::get<double>(std::get<Attribute>(again.nodes[0].args[1]));
    EXPECT_EQ(std::memcmp(&got, &number, sizeof number), 0) << number;
  }
}

TEST(Text, SpecialConstantsSurvive) {
  std::vector<Attribute> odd = {INT64_MIN,
                                INT64_MAX,
                                -0.0,
                                std::string("\n\t\"\\ %0 # }"),
                                std::vector<double>{},
                                std::vector<bool>{true},
                                std::vector<std::string>{"a, b", ""},
                                std::complex<double>(-0.0, INFINITY),
                                Device{"cpu:0"},
                                ScalarTensor{DType::i64, Size(-3), true},
                                ScalarTensor{DType::boolean, true, false}};
  for (const Attribute& attribute : odd) {
    std::string text = print(with_constant(attribute));
    Graph again = parse(text);
    verify(again);
    EXPECT_EQ(print(again), text);
    EXPECT_TRUE(std::get<Attribute>(again.nodes[0].args[1]) == attribute) << text;
  }
}

// Text with removed, repeated or changed characters is parsed or rejected, never anything else.
TEST(Text, DamagedTextIsRejectedOrParsed) {
  std::string good = print(with_constant(std::vector<int64_t>{1, 2}));
  std::mt19937 random(3);
  size_t rejected = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bad = good;
    size_t at = random() % bad.size();
    switch (random() % 3) {
      case 0:
        bad.erase(at, 1 + random() % 4);
        break;
      case 1:
        bad[at] = static_cast<char>(32 + random() % 95);
        break;
      default:
        bad.insert(at, bad.substr(random() % bad.size(), 3));
    }
    try {
      Graph g = parse(bad);
      verify(g);
      EXPECT_EQ(print(parse(print(g))), print(g));
    } catch (const UserError& error) {
      ++rejected;
    }
  }
  EXPECT_GT(rejected, 10000u);
}

}  // namespace tenon::ir
