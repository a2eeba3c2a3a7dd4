// Offsets in the arena: values with overlapping lifetimes never share a byte, unless one reuses the buffer of the other.
#include "planner/arena.h"

#include <gtest/gtest.h>

#include <random>

#include "ir/graph/parse.h"
#include "ir/graph/verify.h"
#include "planner/reuse.h"

namespace tenon::test {
namespace {

using ir::ValueId;

const planner::NodeMemory kPlain{[](const ir::Node&) { return true; },
                                 [](const ir::Node&) { return std::vector<std::pair<ValueId, ValueId>>(); }};

ir::Arena plan(const ir::Graph& graph, const planner::NodeMemory& node_memory = kPlain) {
  std::vector<ir::FixedType> types;
  for (const ir::Value& value : graph.values) types.push_back(value.type.fixed());
  return planner::plan_arena(graph, types, planner::plan_reuse(graph), node_memory);
}

int64_t bytes(const ir::Graph& graph, ValueId id) {
  return ir::extent_of(graph.values[id].type.fixed()) * ir::dtype_size(graph.values[id].type.dtype);
}

// Returns a graph of random ops with one or two operands over vectors of random lengths; some values are outputs.
ir::Graph random_graph(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  ir::Graph graph;
  std::vector<ValueId> values;
  for (int i = 0; i < 3; ++i) {
    int64_t length = static_cast<int64_t>(1 + below(5000));
    values.push_back(graph.add_value({ir::DType::f32, {length}, {1}}));
    graph.inputs.push_back({values.back(), ir::InputRole::argument, "x"});
  }
  for (size_t i = 0; i < 30; ++i) {
    ir::Node node{.op = below(8) == 0 ? "other::op" : "aten::op"};
    for (size_t k = 0; k <= below(2); ++k) node.args.emplace_back(values[values.size() - 1 - below(std::min<size_t>(values.size(), 6))]);
    bool is_view = below(5) == 0;
    ValueId operand = std::get<ValueId>(node.args[0]);
    ir::TensorType type{ir::DType::f32, {static_cast<int64_t>(1 + below(5000))}, {1}};
    values.push_back(graph.add_value(is_view ? graph.values[operand].type : type, is_view ? operand : ir::kNoValue));
    node.results.push_back({false, {values.back()}});
    graph.nodes.push_back(node);
  }
  for (ValueId id : values)
    if (static_cast<size_t>(id) >= graph.inputs.size() && below(8) == 0) graph.outputs.push_back(id);
  return graph;
}

// Live range of a buffer, in node indices.
struct Life {
  ValueId root;
  size_t begin, end;
};

std::vector<Life> lives_of(const ir::Graph& graph) {
  std::vector<ValueId> root(graph.values.size());
  std::vector<Life> lives;
  std::vector<size_t> of(graph.values.size(), 0);
  for (const ir::Input& input : graph.inputs)
    root[input.value] = input.value, lives.push_back({input.value, 0, 0}), of[input.value] = lives.size() - 1;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    ir::for_each_operand(graph.nodes[i], [&](ValueId id) { lives[of[root[id]]].end = i; });
    ir::for_each_definition(graph.nodes[i], [&](ValueId id) {
      ValueId alias = graph.values[id].alias_of;
      root[id] = alias == ir::kNoValue ? id : root[alias];
      if (alias != ir::kNoValue) return;
      of[id] = lives.size();
      lives.push_back({id, i, i});
    });
  }
  for (ValueId id : graph.outputs) lives[of[root[id]]].end = SIZE_MAX;
  return lives;
}

TEST(Arena, LiveValuesDoNotOverlap) {
  size_t placed = 0, hosted = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    ir::Graph graph = random_graph(seed);
    ir::Arena arena = plan(graph);
    std::vector<Life> lives = lives_of(graph);
    for (const Life& a : lives) {
      ir::Arena::Location at = arena.locations[a.root];
      if (at.host == ir::Arena::kOwn) continue;
      ++placed;
      ASSERT_NE(a.end, SIZE_MAX) << "seed " << seed << ": %" << a.root << " is handed out";
      if (at.host == ir::Arena::kBlock) ASSERT_LE(at.begin + bytes(graph, a.root), arena.bytes);
      if (at.host >= 0) {
        ++hosted;
        ValueId host = arena.hosts[static_cast<size_t>(at.host)];
        ASSERT_LE(at.begin + bytes(graph, a.root), bytes(graph, host));
        for (const Life& b : lives)
          if (b.root == host) ASSERT_LT(a.end, b.begin) << "seed " << seed << ": %" << a.root << " lives in a result that is written";
      }
      for (const Life& b : lives) {
        ir::Arena::Location other = arena.locations[b.root];
        if (a.root == b.root || other.host != at.host || a.end < b.begin || b.end < a.begin) continue;
        bool apart = at.begin + bytes(graph, a.root) <= other.begin || other.begin + bytes(graph, b.root) <= at.begin;
        ASSERT_TRUE(apart) << "seed " << seed << ": %" << a.root << " and %" << b.root;
      }
    }
  }
  EXPECT_GT(placed, 1000u);
  EXPECT_GT(hosted, 100u);
}

TEST(Arena, AResultReusesTheBufferOfADyingOperand) {
  ir::Graph graph = ir::parse(R"(graph @g {
  input %0 : f32[64] argument "x"
  %1 : f32[64] = aten::neg(%0)
  %2 : f32[64] = aten::exp(%1)
  %3 : f32[64] = aten::mul.Tensor(%2, %1)
  %4 : f32[64] = aten::log(%3)
  %5 : f32[1] = aten::sum(%4)
  return %5
})");
  planner::NodeMemory sharing = kPlain;
  sharing.may_share = [](const ir::Node& node) {
    std::vector<std::pair<ValueId, ValueId>> pairs;
    ir::for_each_operand(node, [&](ValueId id) { pairs.emplace_back(node.results[0].ids[0], id); });
    return pairs;
  };
  ir::Arena arena = plan(graph, sharing);
  auto place = [&](ValueId id) { return std::pair{arena.locations[id].host, arena.locations[id].begin}; };
  EXPECT_NE(place(2), place(1)) << "%1 is read again";
  EXPECT_EQ(place(3), place(2));
  EXPECT_EQ(place(4), place(3));
  EXPECT_EQ(arena.bytes, 2 * 64 * 4);
  EXPECT_EQ(arena.locations[5].host, ir::Arena::kOwn) << "a result";
}

}  // namespace
}  // namespace tenon::test
