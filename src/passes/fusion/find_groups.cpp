#include "passes/fusion/find_groups.h"

#include <algorithm>

#include "ops/lowerable.h"

namespace tenon::passes {
namespace {

using ir::ValueId;

constexpr int kNone = -1;

// One walk over the nodes. A group takes nodes in until a node outside it reads one of its values:
// from then on it must have run, so it is closed.
class Finder {
 public:
  explicit Finder(const ir::Graph& graph) : graph_(graph), group_of_(graph.values.size(), kNone) {}

  std::vector<ir::Group> run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const ir::Node& node = graph_.nodes[i];
      if (ops::lowerable(graph_, node)) join(i);
      else close_operands(node, kNone);
    }
    finish();
    return std::move(groups_);
  }

 private:
  struct State {
    bool open = true;
    int merged_into = kNone;
  };

  int home(ValueId value) const {
    int group = group_of_[value];
    while (group != kNone && states_[group].merged_into != kNone) group = states_[group].merged_into;
    return group;
  }

  void close_operands(const ir::Node& node, int except) {
    ir::for_each_operand(node, [&](ValueId id) {
      int group = home(id);
      if (group != kNone && group != except) states_[group].open = false;
    });
  }

  void join(size_t index) {
    const ir::Node& node = graph_.nodes[index];
    ValueId result = ops::result_of(node);
    const std::vector<int64_t>& sizes = graph_.values[result].type.sizes;
    int mine = kNone;
    ir::for_each_operand(node, [&](ValueId id) {
      int group = home(id);
      if (group == kNone || group == mine || !states_[group].open || groups_[group].sizes != sizes) return;
      if (graph_.values[id].type.sizes != sizes) return;
      mine = mine == kNone ? group : merge(mine, group);
    });
    if (mine == kNone) {
      mine = static_cast<int>(groups_.size());
      groups_.push_back({.sizes = sizes});
      states_.emplace_back();
    }
    close_operands(node, mine);
    groups_[mine].nodes.push_back(index);
    group_of_[result] = mine;
  }

  int merge(int a, int b) {
    groups_[a].nodes.insert(groups_[a].nodes.end(), groups_[b].nodes.begin(), groups_[b].nodes.end());
    std::sort(groups_[a].nodes.begin(), groups_[a].nodes.end());
    groups_[b].nodes.clear();
    states_[b].merged_into = a;
    return a;
  }

  // Inputs are what comes from outside, outputs what is read outside.
  void finish() {
    std::vector<char> needed(graph_.values.size(), false);
    for (ValueId id : graph_.outputs)
      if (id != ir::kNoValue) needed[id] = true;
    for (const auto* writes : {&graph_.write_backs, &graph_.forward_write_backs})
      for (const ir::WriteBack& write : *writes) needed[write.value] = true;
    std::vector<int> group_of_node(graph_.nodes.size(), kNone);
    for (size_t g = 0; g < groups_.size(); ++g)
      for (size_t node : groups_[g].nodes) group_of_node[node] = static_cast<int>(g);
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      ir::for_each_operand(graph_.nodes[i], [&](ValueId id) {
        if (home(id) != kNone && home(id) != group_of_node[i]) needed[id] = true;
      });
    for (size_t g = 0; g < groups_.size(); ++g) {
      ir::Group& group = groups_[g];
      for (size_t i : group.nodes) {
        ir::for_each_operand(graph_.nodes[i], [&](ValueId id) {
          bool inside = home(id) == static_cast<int>(g);
          if (!inside && std::find(group.inputs.begin(), group.inputs.end(), id) == group.inputs.end()) group.inputs.push_back(id);
        });
        ValueId result = ops::result_of(graph_.nodes[i]);
        if (needed[result]) group.outputs.push_back(result);
      }
    }
    std::erase_if(groups_, [](const ir::Group& group) { return group.nodes.empty() || group.outputs.empty(); });
  }

  const ir::Graph& graph_;
  std::vector<ir::Group> groups_;
  std::vector<State> states_;
  std::vector<int> group_of_;  // per value that a group computes
};

}  // namespace

std::vector<ir::Group> find_groups(const ir::Graph& graph) { return Finder(graph).run(); }

ir::Graph fuse(const ir::Graph& graph, const std::vector<ir::Group>& groups) {
  ir::Graph out = graph;
  out.nodes.clear();
  std::vector<int> group_of_node(graph.nodes.size(), kNone);
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t node : groups[g].nodes) group_of_node[node] = static_cast<int>(g);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (i == graph.backward_start) out.backward_start = out.nodes.size();
    int g = group_of_node[i];
    if (g == kNone) out.nodes.push_back(graph.nodes[i]);
    if (g == kNone || groups[g].nodes.back() != i) continue;
    ir::Node fused{.op = "tenon::fused"};
    fused.args.emplace_back(ir::Attribute(static_cast<int64_t>(g)));
    for (ValueId id : groups[g].inputs) fused.args.emplace_back(id);
    for (ValueId id : groups[g].outputs) fused.results.push_back({false, {id}});
    out.nodes.push_back(std::move(fused));
  }
  return out;
}

}  // namespace tenon::passes
