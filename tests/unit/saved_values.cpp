// Which values a forward saves: the choice costs no more than any other one, and keeps to the memory budget.
#include "autodiff/saved_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "autodiff/min_cut.h"
#include "autodiff/partition.h"
#include "ir/graph/verify.h"

namespace tenon::test {
namespace {

using autodiff::RecomputeSettings;
using autodiff::SavedValues;
using ir::ValueId;

// Times by the name of the op: "cheap3" takes 3 microseconds, "once" must not run twice.
double time_of(const ir::Graph&, const ir::Node& node) {
  if (node.op == "aten::once") return HUGE_VAL;
  return 1000.0 * std::stoi(node.op.substr(std::string("aten::cheap").size()));
}

// A joint graph of random ops over vectors: the backward reads some values of the forward.
ir::Graph random_joint(uint64_t seed, size_t forward_nodes) {
  std::mt19937_64 random(seed);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  ir::Graph graph;
  auto add = [&](ValueId alias = ir::kNoValue) {
    ir::TensorType type{ir::DType::f32, {static_cast<int64_t>(4096 * (1 + below(64)))}, {1}};
    return graph.add_value(alias == ir::kNoValue ? type : graph.values[alias].type, alias);
  };
  std::vector<ValueId> values;
  for (int i = 0; i < 3; ++i) {
    values.push_back(add());
    graph.inputs.push_back({values.back(), ir::InputRole::argument, "x" + std::to_string(i)});
  }
  for (size_t i = 0; i < forward_nodes; ++i) {
    ir::Node node{.op = below(4) == 0 ? "aten::once" : "aten::cheap" + std::to_string(1 + below(200))};
    for (size_t k = 0; k <= below(2); ++k) node.args.emplace_back(values[values.size() - 1 - below(std::min<size_t>(values.size(), 5))]);
    bool is_view = below(5) == 0;
    values.push_back(add(is_view ? std::get<ValueId>(node.args[0]) : ir::kNoValue));
    node.results.push_back({false, {values.back()}});
    graph.nodes.push_back(node);
  }
  graph.outputs.push_back(values.back());
  graph.backward_start = graph.nodes.size();
  ValueId tangent = add();
  graph.inputs.push_back({tangent, ir::InputRole::tangent, "tangent"});
  ValueId last = tangent;
  for (ValueId id : values) {
    if (below(2)) continue;
    ir::Node node{.op = "aten::backward", .args = {last, id}};
    last = add();
    node.results.push_back({false, {last}});
    graph.nodes.push_back(node);
  }
  graph.outputs.push_back(last);
  return graph;
}

// The time of a choice as the cost model counts it: 0.2 ns for each saved byte of values over 256 KB, a tenth of that for others.
double time_of_choice(const ir::Graph& graph, const SavedValues& chosen) {
  double time = 0;
  for (size_t id = 0; id < graph.values.size(); ++id) {
    double bytes = static_cast<double>(graph.values[id].type.fixed().sizes[0] * 4);
    if (chosen.saved[id]) time += bytes * (bytes > (1 << 18) ? 0.2 : 0.02);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    bool is_view = i < graph.backward_start && graph.values[graph.nodes[i].results[0].ids[0]].alias_of != ir::kNoValue;
    if (chosen.recomputed[i] && !is_view) time += time_of(graph, graph.nodes[i]);
  }
  return time;
}

// Follows the backward's needs if these nodes are computed again; returns nullopt if they read an input that the backward does not read.
std::optional<SavedValues> follow(const ir::Graph& graph, uint32_t again, const SavedValues& only_views) {
  SavedValues out{std::vector<bool>(graph.values.size()), std::vector<bool>(graph.nodes.size()), std::vector<bool>(graph.values.size())};
  std::vector<ValueId> open;
  for (size_t i = graph.backward_start; i < graph.nodes.size(); ++i) open.push_back(std::get<ValueId>(graph.nodes[i].args[1]));
  while (!open.empty()) {
    ValueId id = open.back();
    open.pop_back();
    if (id < 3) {
      if (!only_views.read[id]) return std::nullopt;
      continue;
    }
    size_t node = static_cast<size_t>(id) - 3;
    if (graph.values[id].alias_of == ir::kNoValue && !(again >> node & 1)) {
      out.saved[id] = true;
      continue;
    }
    if (graph.nodes[node].op == "aten::once" && graph.values[id].alias_of == ir::kNoValue) return std::nullopt;
    out.recomputed[node] = true;
    ir::for_each_operand(graph.nodes[node], [&](ValueId operand) { open.push_back(operand); });
  }
  return out;
}

TEST(SavedValues, NoOtherChoiceIsFaster) {
  size_t recomputing = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    ir::Graph graph = random_joint(seed, 9);
    SavedValues only_views = autodiff::choose_saved_values(graph, 1, {}), chosen = autodiff::choose_saved_values(graph, 1, {time_of});
    double best = HUGE_VAL;
    for (uint32_t again = 0; again < 1u << 9; ++again)
      if (auto other = follow(graph, again, only_views)) best = std::min(best, time_of_choice(graph, *other));
    EXPECT_NEAR(time_of_choice(graph, chosen), best, 1e-3) << "seed " << seed;
    recomputing += time_of_choice(graph, chosen) < time_of_choice(graph, only_views);
  }
  EXPECT_GT(recomputing, 50u);
}

TEST(SavedValues, TheBudgetHoldsOrNothingTakesLess) {
  size_t smaller = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ir::Graph graph = random_joint(seed, 9);
    SavedValues only_views = autodiff::choose_saved_values(graph, 1, {}), fastest = autodiff::choose_saved_values(graph, 1, {time_of});
    double least = HUGE_VAL;
    for (uint32_t again = 0; again < 1u << 9; ++again)
      if (auto other = follow(graph, again, only_views)) least = std::min(least, autodiff::bytes_of(graph, *other));
    double limit = autodiff::bytes_of(graph, fastest);
    for (double budget : {1.0, 0.7, 0.4, 0.0}) {
      double bytes = autodiff::bytes_of(graph, autodiff::choose_saved_values(graph, 1, {time_of, budget}));
      EXPECT_LE(bytes, std::max(least, budget * limit)) << "seed " << seed << ", budget " << budget;
      smaller += bytes < limit;
    }
  }
  EXPECT_GT(smaller, 100u);
}

TEST(SavedValues, ThePartsAreValidGraphs) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    ir::Graph graph = random_joint(seed, 30);
    for (double budget : {1.0, 0.3}) {
      autodiff::Partition parts = autodiff::partition(graph, 1, {time_of, budget});
      ir::verify(parts.forward);
      ir::verify(parts.backward);
    }
  }
}

// A node that reads what the forward writes back, or an input that the backward does not read, is not computed again.
TEST(SavedValues, InputsThatMayHaveChanged) {
  ir::Graph graph;
  ir::TensorType type{ir::DType::f32, {1 << 20}, {1}};
  ValueId x = graph.add_value(type), y = graph.add_value(type), tangent = graph.add_value(type), gradient = graph.add_value(type);
  graph.inputs = {{x, ir::InputRole::argument, "x"}, {tangent, ir::InputRole::tangent, "tangent"}};
  graph.nodes = {{.op = "aten::cheap1", .args = {x}, .results = {{false, {y}}}},
                 {.op = "aten::backward", .args = {tangent, y}, .results = {{false, {gradient}}}}};
  graph.backward_start = 1;
  graph.outputs = {y, gradient};
  EXPECT_TRUE(autodiff::choose_saved_values(graph, 1, {time_of, 0.0}).saved[y]);
  graph.nodes[1].args.emplace_back(x);
  EXPECT_FALSE(autodiff::choose_saved_values(graph, 1, {time_of, 0.0}).saved[y]);
  graph.forward_write_backs = {{x, y}};
  EXPECT_TRUE(autodiff::choose_saved_values(graph, 1, {time_of, 0.0}).saved[y]);
}

TEST(MinCut, CutsTheCheapestEdges) {
  autodiff::MinCut graph;
  int32_t source = graph.add_vertex(), a = graph.add_vertex(), b = graph.add_vertex(), sink = graph.add_vertex();
  graph.add_edge(source, a, 5);
  graph.add_edge(source, b, 1);
  graph.add_edge(a, b, autodiff::MinCut::kInfinite);
  graph.add_edge(a, sink, 2);
  graph.add_edge(b, sink, 10);
  EXPECT_EQ(graph.sink_side(source, sink), (std::vector<bool>{false, true, true, true}));  // 5 + 1 instead of 2 + 10.
}

}  // namespace
}  // namespace tenon::test
