#include "passes/fusion/find_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "ops/strided_operands.h"
#include "passes/fusion/attention.h"
#include "passes/fusion/convolutions.h"
#include "passes/fusion/group_norm.h"
#include "passes/fusion/loss.h"
#include "passes/fusion/products.h"

namespace tenon::passes {
namespace {

using ir::ValueId;

constexpr int kNone = -1;
// Nested reductions of a kernel. Each level recomputes all elements once more; a softmax has two levels. Estimate, not measured.
constexpr int kMaxReductionDepth = 3;
// LLVM's time grows faster than a kernel does, while a kernel of this many ops saves nearly all of the memory traffic that a
// larger one would. Chosen by bench_compile_size: `chain 100 pure` takes 0.69 s without a bound, 0.30 s with 64
// nodes, 0.13 s with 32.
constexpr size_t kMaxGroupNodes = 32;

ir::SizeList without_reduced(const ir::SizeList& sizes, const std::vector<bool>& reduced) {
  ir::SizeList out = sizes;
  for (size_t d = 0; d < reduced.size(); ++d)
    if (reduced[d]) out[d] = 1;
  return out;
}

// Forms groups in one pass over the nodes. A group accepts nodes until a node outside it reads one of
// its values: the group must run before that node, so it is closed.
class GroupFinder {
 public:
  GroupFinder(const ir::Graph& graph, const ops::Lowerings& lowerings, bool unfused, const std::vector<ir::Group>& calls)
      : graph_(graph),
        lowerings_(lowerings),
        unfused_(unfused),
        group_of_(graph.values.size(), kNone),
        uses_(graph.values.size(), 0),
        depth_(graph.values.size(), 0) {
    for (const ir::Node& node : graph.nodes) ir::for_each_operand(node, [&](ValueId id) { ++uses_[id]; });
    for_each_result([&](ValueId id) { ++uses_[id]; });
    for (const ir::Group& call : calls) taken_.insert(call.nodes.begin(), call.nodes.end());
  }

  std::vector<ir::Group> run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const ir::Node& node = graph_.nodes[i];
      if (taken_.count(i)) close_operands(node, kNone);
      else if (const auto* entry = std::get_if<const ops::OpEntry*>(&lowerings_[i])) join(i, **entry);
      else if (const auto* concat = std::get_if<ops::Concatenation>(&lowerings_[i]); concat && is_profitable(node, *concat))
        join_concatenation(i, *concat);
      else if (const auto* pooling = std::get_if<ops::Pooling>(&lowerings_[i]))
        begin(i).loops().strided_operands.push_back(pooling->source);
      else if (const auto* movement = std::get_if<ops::DataMovement>(&lowerings_[i]))
        begin(i).loops().strided_operands.push_back(movement->source);
      else close_operands(node, kNone);
    }
    finish();
    return std::move(groups_);
  }

 private:
  struct GroupState {
    bool open = true;
    bool has_positions = false;
    int merged_into = kNone;
  };

  int current_group(ValueId value) const {
    int group = group_of_[value];
    while (group != kNone && states_[group].merged_into != kNone) group = states_[group].merged_into;
    return group;
  }

  void close_operands(const ir::Node& node, int except) {
    ir::for_each_operand(node, [&](ValueId id) {
      int group = current_group(id);
      if (group != kNone && group != except) states_[group].open = false;
    });
  }

  // Iteration space of a node.
  struct NodeSpace {
    const ir::SizeList& sizes;
    std::vector<bool> reduced;
    std::vector<ir::StridedOperand> strided_operands;
    std::vector<ir::IndexRange> index_ranges;
  };

  static bool fits(const std::vector<bool>& a, const std::vector<bool>& b) { return a.empty() || b.empty() || a == b; }

  // A node may also compute on the reduced results of a group.
  bool takes(const ir::Group& group, const NodeSpace& space) const {
    if (same(group.sizes, space.sizes)) return fits(group.loops().reduced, space.reduced);
    return space.reduced.empty() && !group.loops().reduced.empty() &&
           same(without_reduced(group.sizes, group.loops().reduced), space.sizes);
  }

  // No operand of the node may lack dimensions of the group's iteration space, or have other strides than in the rest of the group.
  bool can_join(int group, const ir::Node& node, const NodeSpace& space) const {
    const ir::Group& g = groups_[group];
    bool ok = !unfused_ && states_[group].open && takes(g, space);
    ir::for_each_operand(node, [&](ValueId id) {
      ok &= std::find(g.loops().dropped.begin(), g.loops().dropped.end(), id) == g.loops().dropped.end();
      const ir::StridedOperand* here = find(space.strided_operands, id);
      ok &= !here || current_group(id) != group;
      if (!have_same_strides(here, find(g.loops().strided_operands, id))) ok &= !reads(g, id);
    });
    for (const ir::IndexRange& range : space.index_ranges) ok &= current_group(range.index) != group;
    return ok;
  }

  static const ir::StridedOperand* find(const std::vector<ir::StridedOperand>& list, ValueId id) {
    auto it = std::find_if(list.begin(), list.end(), [&](const ir::StridedOperand& p) { return p.id == id; });
    return it == list.end() ? nullptr : &*it;
  }
  static bool have_same_strides(const ir::StridedOperand* a, const ir::StridedOperand* b) {
    return a && b ? same(a->strides, b->strides) : !a && !b;
  }

  bool reads(const ir::Group& group, ValueId value) const {
    bool found = false;
    for (size_t i : group.nodes) ir::for_each_operand(graph_.nodes[i], [&](ValueId id) { found |= id == value; });
    return found;
  }

  // Returns whether two groups read their common inputs with the same strides.
  bool agree(const ir::Group& a, const ir::Group& b) const {
    for (auto [one, other] : {std::pair{&a, &b}, std::pair{&b, &a}})
      for (const ir::StridedOperand& strided : one->loops().strided_operands)
        if (!have_same_strides(&strided, find(other->loops().strided_operands, strided.id)) && reads(*other, strided.id)) return false;
    return true;
  }

  void join(size_t index, const ops::OpEntry& entry) {
    const ir::Node& node = graph_.nodes[index];
    NodeSpace space{ops::sizes_of(graph_, node, entry), ops::reduced_dims(graph_, node, entry),
                    *ops::strided_operands_of(graph_, node, entry), ops::index_ranges_of(graph_, node, entry)};
    int mine = kNone, deepest = 0;
    size_t nodes = 1;
    bool has_positions = entry.has_positions;
    std::vector<int> merged;
    std::vector<bool> reduced = space.reduced;
    ir::for_each_operand(node, [&](ValueId id) {
      int group = current_group(id);
      if (group == kNone || !can_join(group, node, space)) return;
      bool is_known = std::find(merged.begin(), merged.end(), group) != merged.end();
      if (!is_known && nodes + groups_[group].nodes.size() > kMaxGroupNodes) return;
      if (!fits(reduced, groups_[group].loops().reduced) || (!merged.empty() && !same(groups_[merged[0]].sizes, groups_[group].sizes)))
        return;
      // Concatenations and pooling need positions, which loops over reduced dimensions do not have.
      bool reduces = !reduced.empty() || !groups_[group].loops().reduced.empty();
      if (reduces && (has_positions || states_[group].has_positions)) return;
      has_positions |= states_[group].has_positions;
      if (std::any_of(merged.begin(), merged.end(), [&](int other) { return !agree(groups_[other], groups_[group]); })) return;
      if (reduced.empty()) reduced = groups_[group].loops().reduced;
      if (!is_known) nodes += groups_[group].nodes.size();
      merged.push_back(group);
      deepest = std::max(deepest, depth_[id]);
    });
    if (deepest + ops::depth(entry) > kMaxReductionDepth) merged.clear();
    for (int group : merged) {
      if (mine == kNone) mine = group;
      else if (group != mine && states_[group].merged_into == kNone) merge(mine, group);
    }
    if (mine == kNone) {
      mine = static_cast<int>(groups_.size());
      groups_.push_back({.sizes = space.sizes, .computation = ir::LoopNest{.reduced = space.reduced}});
      states_.emplace_back();
      deepest = 0;
    }
    if (groups_[mine].loops().reduced.empty()) groups_[mine].loops().reduced = space.reduced;
    states_[mine].has_positions |= entry.has_positions;
    close_operands(node, mine);
    groups_[mine].nodes.push_back(index);
    append(groups_[mine].loops().strided_operands, space.strided_operands);
    append(groups_[mine].loops().index_ranges, space.index_ranges);
    for (ValueId result : ops::results_of(node)) {
      if (result == ir::kNoValue) continue;
      group_of_[result] = mine;
      depth_[result] = deepest + ops::depth(entry);
      if (graph_.values[result].type.sizes.size() < space.sizes.size()) groups_[mine].loops().dropped.push_back(result);
    }
  }

  // Starts a group with this node.
  ir::Group& begin(size_t index) {
    std::vector<ValueId> results = ops::results_of(graph_.nodes[index]);
    groups_.push_back({.nodes = {index}, .sizes = graph_.values[results[0]].type.sizes});
    states_.push_back({.has_positions = true});
    int mine = static_cast<int>(groups_.size()) - 1;
    for (ValueId result : results)
      if (result != ir::kNoValue) group_of_[result] = mine;
    close_operands(graph_.nodes[index], mine);
    return groups_.back();
  }

  // ATen copies one operand after another, while a kernel tests all of them for each element. So a cat
  // of many operands is only profitable if the kernel also computes them.
  bool is_profitable(const ir::Node& node, const ops::Concatenation& concat) const {
    constexpr size_t kMaxLoadedSegments = 2;  // Estimate, not measured.
    if (node.op != "aten::cat" || concat.segments.size() <= kMaxLoadedSegments) return true;
    auto is_computed = [&](const auto& segment) {
      return current_group(segment.id) != kNone && is_segment(current_group(segment.id), segment.id);
    };
    bool is_innermost = graph_.values[ops::results_of(node)[0]].type.strides[concat.dim] == 1;
    return is_innermost && std::all_of(concat.segments.begin(), concat.segments.end(), is_computed);
  }
  // Returns whether a group is a plain cat, which ATen copies faster, unless it is so small that the call costs more than the copy.
  bool only_copies(const ir::Group& group) const {
    constexpr int64_t kMinElementsForAtenCopy = 4096;  // Estimate, not measured.
    ir::Size elements = 1;
    for (const ir::Size& size : group.sizes) elements *= size;
    return group.nodes.size() == 1 && graph_.nodes[group.nodes[0]].op == "aten::cat" && !unfused_ && elements >= kMinElementsForAtenCopy;
  }

  // Groups that only compute one segment are merged into the concatenation; other segments are loaded from memory.
  void join_concatenation(size_t index, const ops::Concatenation& concat) {
    std::vector<int> members;
    for (const auto& [id, end] : concat.segments)
      if (id != ir::kNoValue && !concat.strided && current_group(id) != kNone && is_segment(current_group(id), id))
        members.push_back(current_group(id));
    begin(index);
    int mine = static_cast<int>(groups_.size()) - 1;
    if (concat.strided) groups_[mine].loops().strided_operands.push_back(*concat.strided);
    for (int member : members) {
      if (states_[member].merged_into != kNone) continue;  // The same operand occurs twice.
      if (groups_[mine].nodes.size() + groups_[member].nodes.size() > kMaxGroupNodes) continue;
      append(groups_[mine].loops().segment_nodes, std::vector<size_t>(groups_[member].nodes));
      merge(mine, member);
    }
  }

  // Returns whether this operand is the only result of a group that is used outside it.
  bool is_segment(int group, ValueId operand) const {
    const ir::Group& g = groups_[group];
    if (unfused_ || !states_[group].open || !g.loops().reduced.empty() || !g.loops().strided_operands.empty() ||
        states_[group].has_positions || !same(g.sizes, graph_.values[operand].type.sizes))
      return false;
    std::map<ValueId, int> inside;
    for (size_t i : g.nodes) ir::for_each_operand(graph_.nodes[i], [&](ValueId id) { ++inside[id]; });
    for (size_t i : g.nodes)
      for (ValueId id : ops::results_of(graph_.nodes[i]))
        if (id != ir::kNoValue && uses_[id] != inside[id] + (id == operand ? 1 : 0)) return false;
    return true;
  }

  template <class F>
  void for_each_result(F&& f) const {
    for (ValueId id : graph_.outputs)
      if (id != ir::kNoValue) f(id);
    for (const auto* writes : {&graph_.write_backs, &graph_.forward_write_backs})
      for (const ir::WriteBack& write : *writes) f(write.value);
  }

  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  void merge(int a, int b) {
    if (groups_[a].loops().reduced.empty()) groups_[a].loops().reduced = groups_[b].loops().reduced;
    append(groups_[a].loops().segment_nodes, groups_[b].loops().segment_nodes);
    append(groups_[a].loops().strided_operands, groups_[b].loops().strided_operands);
    append(groups_[a].loops().index_ranges, groups_[b].loops().index_ranges);
    append(groups_[a].loops().dropped, groups_[b].loops().dropped);
    append(groups_[a].nodes, groups_[b].nodes);
    std::sort(groups_[a].nodes.begin(), groups_[a].nodes.end());
    groups_[b].nodes.clear();
    states_[a].has_positions |= states_[b].has_positions;
    states_[b].merged_into = a;
  }

  // Inputs come from outside the group, outputs are read outside it.
  void finish() {
    std::vector<char> needed(graph_.values.size(), false);
    for_each_result([&](ValueId id) { needed[id] = true; });
    std::vector<int> group_of_node(graph_.nodes.size(), kNone);
    for (size_t g = 0; g < groups_.size(); ++g)
      for (size_t node : groups_[g].nodes) group_of_node[node] = static_cast<int>(g);
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      ir::for_each_operand(graph_.nodes[i], [&](ValueId id) {
        if (current_group(id) != kNone && current_group(id) != group_of_node[i]) needed[id] = true;
      });
    for (size_t g = 0; g < groups_.size(); ++g) {
      ir::Group& group = groups_[g];
      for (size_t i : group.nodes) {
        ir::for_each_operand(graph_.nodes[i], [&](ValueId id) {
          bool inside = current_group(id) == static_cast<int>(g);
          if (!inside && std::find(group.inputs.begin(), group.inputs.end(), id) == group.inputs.end()) group.inputs.push_back(id);
        });
        for (ValueId result : ops::results_of(graph_.nodes[i]))
          if (result != ir::kNoValue && needed[result]) group.outputs.push_back(result);
      }
    }
    std::erase_if(groups_, [&](const ir::Group& group) { return group.nodes.empty() || group.outputs.empty() || only_copies(group); });
  }

  const ir::Graph& graph_;
  const ops::Lowerings& lowerings_;
  bool unfused_;
  std::set<size_t> taken_;  // Nodes of groups that are no kernels.
  std::vector<ir::Group> groups_;
  std::vector<GroupState> states_;
  std::vector<int> group_of_;  // One entry per value that a group computes.
  std::vector<int> uses_;      // Number of uses per value.
  std::vector<int> depth_;     // The nesting depth of reductions inside each value's group.
};

}  // namespace

std::vector<ir::Group> find_groups(const ir::Graph& graph, const ops::Lowerings& lowerings, bool unfused, bool keeps_weights) {
  std::vector<ir::Group> calls;
  if (keeps_weights) {
    calls = find_products(graph, lowerings);
    for (ir::Group& group : find_convolutions(graph)) calls.push_back(std::move(group));
  }
  if (!unfused)
    for (auto find : {find_attention, find_losses, find_group_norms})
      for (ir::Group& call : find(graph)) calls.push_back(std::move(call));
  std::vector<ir::Group> groups = GroupFinder(graph, lowerings, unfused, calls).run();
  groups.insert(groups.end(), calls.begin(), calls.end());
  return groups;
}

ir::Graph fuse(const ir::Graph& graph, const std::vector<ir::Group>& groups) {
  ir::Graph out{graph.name,
                graph.values,
                graph.inputs,
                graph.symbols,
                graph.scalars,
                graph.conditions,
                {},
                graph.write_backs,
                graph.outputs,
                graph.backward_start,
                graph.forward_write_backs};
  std::vector<int> group_of_node(graph.nodes.size(), kNone);
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t node : groups[g].nodes) group_of_node[node] = static_cast<int>(g);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (i == graph.backward_start) out.backward_start = out.nodes.size();
    int g = group_of_node[i];
    if (g == kNone) out.nodes.push_back(graph.nodes[i]);
    if (g == kNone || groups[g].nodes.back() != i) continue;
    ir::Node fused{.op = ir::kFused};
    fused.args.emplace_back(ir::Attribute(static_cast<int64_t>(g)));
    for (ValueId id : groups[g].inputs) fused.args.emplace_back(id);
    for (ValueId id : groups[g].outputs) fused.results.push_back({false, {id}});
    out.nodes.push_back(std::move(fused));
  }
  return out;
}

}  // namespace tenon::passes
