#include "passes/fusion/find_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "ops/lowerable.h"
#include "ops/moves.h"
#include "ops/pieces.h"
#include "ops/placement.h"
#include "passes/fusion/attention.h"
#include "passes/fusion/convolutions.h"
#include "passes/fusion/group_norm.h"
#include "passes/fusion/loss.h"
#include "passes/fusion/products.h"

namespace tenon::passes {
namespace {

using ir::ValueId;

constexpr int kNone = -1;
// Every reduction of a reduction means computing a row's elements once more.
constexpr int kDeepest = 3;
// LLVM's time grows faster than a kernel does, while a kernel of this many ops saves nearly all of the memory traffic that a
// larger one would. Chosen by bench_compile_size: `chain 100 pure` takes 0.69 s without a bound, 0.30 s with 64
// nodes, 0.13 s with 32.
constexpr size_t kMaxGroupNodes = 32;

std::vector<int64_t> without_reduced(const std::vector<int64_t>& sizes, const std::vector<bool>& reduced) {
  std::vector<int64_t> out = sizes;
  for (size_t d = 0; d < reduced.size(); ++d)
    if (reduced[d]) out[d] = 1;
  return out;
}

// One walk over the nodes. A group takes nodes in until a node outside it reads one of its values:
// from then on it must have run, so it is closed.
class Finder {
 public:
  Finder(const ir::Graph& graph, bool apart, const std::vector<ir::Group>& calls)
      : graph_(graph), apart_(apart), group_of_(graph.values.size(), kNone), uses_(graph.values.size(), 0), depth_(graph.values.size(), 0) {
    for (const ir::Node& node : graph.nodes) ir::for_each_operand(node, [&](ValueId id) { ++uses_[id]; });
    for_each_result([&](ValueId id) { ++uses_[id]; });
    for (const ir::Group& call : calls) taken_.insert(call.nodes.begin(), call.nodes.end());
  }

  std::vector<ir::Group> run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const ir::Node& node = graph_.nodes[i];
      if (taken_.count(i)) close_operands(node, kNone);
      else if (const ops::Row* row = ops::lowerable(graph_, node)) join(i, *row);
      else if (auto pieces = ops::pieces_of(graph_, node); pieces && pays(node, *pieces)) join_pieces(i, *pieces);
      else if (auto pool = ops::pool_of(graph_, node)) begin(i).placed.push_back(pool->source);
      else if (auto move = ops::move_of(graph_, node)) begin(i).placed.push_back(move->source);
      else close_operands(node, kNone);
    }
    finish();
    return std::move(groups_);
  }

 private:
  struct State {
    bool open = true;
    bool has_positions = false;
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

  // Where a node computes, and what it reduces.
  struct Place {
    const std::vector<int64_t>& sizes;
    std::vector<bool> reduced;
    std::vector<ir::Placed> placed;
    std::vector<ir::Range> ranges;
  };

  static bool fits(const std::vector<bool>& a, const std::vector<bool>& b) { return a.empty() || b.empty() || a == b; }

  // A node may also compute on what a group has reduced already.
  bool takes(const ir::Group& group, const Place& place) const {
    if (group.sizes == place.sizes) return fits(group.reduced, place.reduced);
    return place.reduced.empty() && !group.reduced.empty() && without_reduced(group.sizes, group.reduced) == place.sizes;
  }

  // None of the node's operands may lack dimensions that the group computes over, or lie along another one of them than it
  // does in the group.
  bool can_join(int group, const ir::Node& node, const Place& place) const {
    const ir::Group& g = groups_[group];
    bool ok = !apart_ && states_[group].open && takes(g, place);
    ir::for_each_operand(node, [&](ValueId id) {
      ok &= std::find(g.dropped.begin(), g.dropped.end(), id) == g.dropped.end();
      const ir::Placed* here = find(place.placed, id);
      ok &= !here || home(id) != group;
      if (!is_same(here, find(g.placed, id))) ok &= !is_read(g, id);
    });
    for (const ir::Range& range : place.ranges) ok &= home(range.index) != group;
    return ok;
  }

  static const ir::Placed* find(const std::vector<ir::Placed>& list, ValueId id) {
    auto it = std::find_if(list.begin(), list.end(), [&](const ir::Placed& p) { return p.id == id; });
    return it == list.end() ? nullptr : &*it;
  }
  static bool is_same(const ir::Placed* a, const ir::Placed* b) { return a && b ? a->strides == b->strides : !a && !b; }

  bool is_read(const ir::Group& group, ValueId value) const {
    bool found = false;
    for (size_t i : group.nodes) ir::for_each_operand(graph_.nodes[i], [&](ValueId id) { found |= id == value; });
    return found;
  }

  // Whether two groups take all that they both read in the same way.
  bool agree(const ir::Group& a, const ir::Group& b) const {
    for (auto [one, other] : {std::pair{&a, &b}, std::pair{&b, &a}})
      for (const ir::Placed& placed : one->placed)
        if (!is_same(&placed, find(other->placed, placed.id)) && is_read(*other, placed.id)) return false;
    return true;
  }

  void join(size_t index, const ops::Row& row) {
    const ir::Node& node = graph_.nodes[index];
    Place place{ops::sizes_of(graph_, node, row), ops::reduced_dims(graph_, node, row), *ops::placed_of(graph_, node, row),
                ops::ranges_of(graph_, node, row)};
    int mine = kNone, deepest = 0;
    size_t nodes = 1;
    bool has_positions = row.has_positions;
    std::vector<int> merged;
    std::vector<bool> reduced = place.reduced;
    ir::for_each_operand(node, [&](ValueId id) {
      int group = home(id);
      if (group == kNone || !can_join(group, node, place)) return;
      bool is_known = std::find(merged.begin(), merged.end(), group) != merged.end();
      if (!is_known && nodes + groups_[group].nodes.size() > kMaxGroupNodes) return;
      if (!fits(reduced, groups_[group].reduced) || (!merged.empty() && groups_[merged[0]].sizes != groups_[group].sizes)) return;
      // Pieces and windows are found by their position, which loops over reduced dimensions do not have.
      bool reduces = !reduced.empty() || !groups_[group].reduced.empty();
      if (reduces && (has_positions || states_[group].has_positions)) return;
      has_positions |= states_[group].has_positions;
      if (std::any_of(merged.begin(), merged.end(), [&](int other) { return !agree(groups_[other], groups_[group]); })) return;
      if (reduced.empty()) reduced = groups_[group].reduced;
      if (!is_known) nodes += groups_[group].nodes.size();
      merged.push_back(group);
      deepest = std::max(deepest, depth_[id]);
    });
    if (deepest + ops::depth(row) > kDeepest) merged.clear();
    for (int group : merged) {
      if (mine == kNone) mine = group;
      else if (group != mine && states_[group].merged_into == kNone) merge(mine, group);
    }
    if (mine == kNone) {
      mine = static_cast<int>(groups_.size());
      groups_.push_back({.sizes = place.sizes, .reduced = place.reduced});
      states_.emplace_back();
      deepest = 0;
    }
    if (groups_[mine].reduced.empty()) groups_[mine].reduced = place.reduced;
    states_[mine].has_positions |= row.has_positions;
    close_operands(node, mine);
    groups_[mine].nodes.push_back(index);
    append(groups_[mine].placed, place.placed);
    append(groups_[mine].ranges, place.ranges);
    for (ValueId result : ops::results_of(node)) {
      if (result == ir::kNoValue) continue;
      group_of_[result] = mine;
      depth_[result] = deepest + ops::depth(row);
      if (graph_.values[result].type.sizes.size() < place.sizes.size()) groups_[mine].dropped.push_back(result);
    }
  }

  // A group that begins with this node.
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

  // ATen copies one operand after another; a kernel looks at all of them for each element.
  bool pays(const ir::Node& node, const ops::Pieces& pieces) const {
    constexpr size_t kFew = 2;
    if (node.op != "aten::cat" || pieces.pieces.size() <= kFew) return true;
    auto is_computed = [&](const auto& piece) { return home(piece.id) != kNone && is_part(home(piece.id), piece.id); };
    bool is_innermost = graph_.values[ops::results_of(node)[0]].type.strides[pieces.dim] == 1;
    return is_innermost && std::all_of(pieces.pieces.begin(), pieces.pieces.end(), is_computed);
  }
  // Nothing of what ATen's copy wins is left where calling it costs more than copying.
  bool only_copies(const ir::Group& group) const {
    constexpr int64_t kFewElements = 4096;
    int64_t elements = 1;
    for (int64_t size : group.sizes) elements *= size;
    return group.nodes.size() == 1 && graph_.nodes[group.nodes[0]].op == "aten::cat" && !apart_ && elements >= kFewElements;
  }

  // Groups that compute nothing but a piece become part of it; all else it reads from memory.
  void join_pieces(size_t index, const ops::Pieces& pieces) {
    std::vector<int> parts;
    for (const auto& [id, end] : pieces.pieces)
      if (id != ir::kNoValue && !pieces.placed && home(id) != kNone && is_part(home(id), id)) parts.push_back(home(id));
    begin(index);
    int mine = static_cast<int>(groups_.size()) - 1;
    if (pieces.placed) groups_[mine].placed.push_back(*pieces.placed);
    for (int part : parts) {
      if (states_[part].merged_into != kNone) continue;  // the same piece twice
      if (groups_[mine].nodes.size() + groups_[part].nodes.size() > kMaxGroupNodes) continue;
      append(groups_[mine].parts, std::vector<size_t>(groups_[part].nodes));
      merge(mine, part);
    }
  }

  // Whether a group leads to this operand alone.
  bool is_part(int group, ValueId operand) const {
    const ir::Group& g = groups_[group];
    if (apart_ || !states_[group].open || !g.reduced.empty() || !g.placed.empty() || states_[group].has_positions ||
        g.sizes != graph_.values[operand].type.sizes)
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
    if (groups_[a].reduced.empty()) groups_[a].reduced = groups_[b].reduced;
    append(groups_[a].parts, groups_[b].parts);
    append(groups_[a].placed, groups_[b].placed);
    append(groups_[a].ranges, groups_[b].ranges);
    append(groups_[a].dropped, groups_[b].dropped);
    append(groups_[a].nodes, groups_[b].nodes);
    std::sort(groups_[a].nodes.begin(), groups_[a].nodes.end());
    groups_[b].nodes.clear();
    states_[a].has_positions |= states_[b].has_positions;
    states_[b].merged_into = a;
  }

  // Inputs are what comes from outside, outputs what is read outside.
  void finish() {
    std::vector<char> needed(graph_.values.size(), false);
    for_each_result([&](ValueId id) { needed[id] = true; });
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
        for (ValueId result : ops::results_of(graph_.nodes[i]))
          if (result != ir::kNoValue && needed[result]) group.outputs.push_back(result);
      }
    }
    std::erase_if(groups_, [&](const ir::Group& group) { return group.nodes.empty() || group.outputs.empty() || only_copies(group); });
  }

  const ir::Graph& graph_;
  bool apart_;
  std::set<size_t> taken_;  // nodes, by others
  std::vector<ir::Group> groups_;
  std::vector<State> states_;
  std::vector<int> group_of_;  // per value that a group computes
  std::vector<int> uses_;      // per value
  std::vector<int> depth_;     // per value: reductions of reductions inside its group
};

}  // namespace

std::vector<ir::Group> find_groups(const ir::Graph& graph, bool apart, bool keeps_weights) {
  std::vector<ir::Group> calls;
  if (keeps_weights) {
    calls = find_products(graph);
    for (ir::Group& group : find_convolutions(graph)) calls.push_back(std::move(group));
  }
  if (!apart)
    for (auto find : {find_attention, find_losses, find_group_norms})
      for (ir::Group& call : find(graph)) calls.push_back(std::move(call));
  std::vector<ir::Group> groups = Finder(graph, apart, calls).run();
  groups.insert(groups.end(), calls.begin(), calls.end());
  return groups;
}

ir::Graph fuse(const ir::Graph& graph, const std::vector<ir::Group>& groups) {
  ir::Graph out{graph.name,
                graph.values,
                graph.inputs,
                graph.scalars,
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
