#include "passes/simplify_views.h"

#include <algorithm>
#include <numeric>

#include "ir/graph/node.h"
#include "ops/table.h"
#include "passes/alias_sets.h"
#include "passes/layout.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

using ir::kNoValue;
using ir::ValueId;
using ops::View;

using DimOrder = std::vector<int64_t>;

// Returns the permutation of a view: dimension d of the result is dimension order[d] of the operand. Empty if it is unknown.
DimOrder order_of(const ir::Node& node, size_t rank) {
  DimOrder order(rank);
  std::iota(order.begin(), order.end(), 0);
  bool fits = true;
  auto wrapped = [&](int64_t d) {
    if (d < 0) d += static_cast<int64_t>(rank);
    fits &= d >= 0 && d < static_cast<int64_t>(rank);
    return fits ? d : 0;
  };
  if (node.op == "aten::t") {
    if (rank == 2) std::swap(order[0], order[1]);
    return order;
  }
  if (node.op == "aten::permute") {
    auto dims = integers(node, 1);
    if (!dims || dims->size() != rank) return {};
    for (size_t d = 0; d < rank; ++d) order[d] = wrapped((*dims)[d]);
    return fits ? order : DimOrder();
  }
  auto a = integer(node, 1), b = integer(node, 2);
  if (node.op != "aten::transpose.int" || !a || !b || rank == 0) return {};
  std::swap(order[static_cast<size_t>(wrapped(*a))], order[static_cast<size_t>(wrapped(*b))]);
  return fits ? order : DimOrder();
}

bool names_sizes(const std::string& op) { return op == "aten::view" || op == "aten::_unsafe_view" || op == "aten::_reshape_alias"; }

class Simplifier {
 public:
  explicit Simplifier(ir::Graph& graph) : graph_(graph), aliases_(graph), renaming_(graph) {
    producer_.assign(graph.values.size(), nullptr);
    uses_.assign(graph.values.size(), 0);
    for (const ir::Node& node : graph.nodes) ir::for_each_operand(node, [&](ValueId id) { ++uses_[id]; });
    for (ValueId id : graph.outputs)
      if (id != kNoValue) ++uses_[id];
    for (const auto* list : {&graph.write_backs, &graph.forward_write_backs})
      for (const ir::WriteBack& write : *list) ++uses_[write.value];
  }

  size_t run() {
    size_t changes = 0;
    for (ir::Node& node : graph_.nodes) {
      renaming_.apply(node, graph_);
      if (!is_view(node)) continue;
      ValueId result = node.results[0].ids[0];
      if (ValueId same = ancestor_like(result); same != kNoValue) {
        aliases_.merge(same, result);
        renaming_.set(result, same);
        uses_[same] += uses_[result];
        --uses_[std::get<ValueId>(node.args[0])];
        ++changes;
        continue;
      }
      changes += shorten(node);
      producer_[result] = &node;
    }
    if (changes > 0) drop_unread();
    return changes;
  }

 private:
  const ir::TensorType& type(ValueId id) const { return graph_.values[id].type; }

  bool is_view(const ir::Node& node) const {
    if (node.ordered || !node.writes.empty() || ops::view_kind(node.op) == View::none) return false;
    const auto* operand = node.args.empty() ? nullptr : std::get_if<ValueId>(&node.args[0]);
    return operand && node.results.size() == 1 && !node.results[0].is_list && node.results[0].ids[0] != kNoValue &&
           graph_.values[node.results[0].ids[0]].alias_of == *operand;
  }

  // Returns the nearest value up the chain with the same sizes, strides and offset.
  ValueId ancestor_like(ValueId id) const {
    for (ValueId up = graph_.values[id].alias_of; up != kNoValue; up = operand_of_view(up))
      if (ir::same(type(up), type(id))) return aliases_.may_replace(up, id) ? up : kNoValue;
    return kNoValue;
  }

  ValueId operand_of_view(ValueId id) const { return producer_[id] ? std::get<ValueId>(producer_[id]->args[0]) : kNoValue; }

  bool shorten(ir::Node& node) {
    ValueId middle = std::get<ValueId>(node.args[0]), base = operand_of_view(middle), result = node.results[0].ids[0];
    if (base == kNoValue) return false;
    View kind = ops::view_kind(node.op), below = ops::view_kind(producer_[middle]->op);
    if (kind == View::strided) {
      // A view without an explicit offset starts at its operand's offset, which may change between calls for an input.
      if (!constant<ir::Size>(node, 3)) {
        if (aliases_.holds_input(result) || node.args.size() != 4) return false;
        node.args[3] = ir::Attribute(type(result).offset);
      }
      while (operand_of_view(base) != kNoValue) base = operand_of_view(base);
      start_from(node, base);
      return true;
    }
    if (uses_[middle] != 1 || kind != below) return false;  // The view in between would stay.
    const ir::TensorType& wanted = type(result);
    auto are_wanted = [&](const std::optional<Shape>& strides) { return strides && ir::same(*strides, wanted.strides); };
    if (kind == View::reshape && (names_sizes(node.op) || names_sizes(producer_[middle]->op)) &&
        are_wanted(view_strides(type(base), wanted.sizes))) {
      node.op = "aten::view";
      node.args = {base, ir::Attribute(wanted.sizes)};
    } else if (kind == View::expand && are_wanted(expand_strides(type(base), wanted.sizes))) {
      node.args[1] = ir::Attribute(wanted.sizes);
    } else if (kind == View::permute) {
      DimOrder order = order_of(node, wanted.sizes.size()), inner = order_of(*producer_[middle], wanted.sizes.size());
      if (order.empty() || inner.empty()) return false;
      for (int64_t& d : order) d = inner[static_cast<size_t>(d)];
      node.op = "aten::permute";
      node.args = {base, ir::Attribute(order)};
    } else {
      return false;
    }
    start_from(node, base);
    return true;
  }

  // Drops the views that are unused now.
  void drop_unread() {
    renaming_.apply(graph_);
    std::vector<bool> keep(graph_.nodes.size(), true);
    for (size_t i = keep.size(); i-- > 0;) {
      const ir::Node& node = graph_.nodes[i];
      if (!is_view(node) || uses_[node.results[0].ids[0]] > 0) continue;
      keep[i] = false;
      --uses_[std::get<ValueId>(node.args[0])];
    }
    keep_nodes(graph_, keep);
  }

  void start_from(ir::Node& node, ValueId base) {
    --uses_[graph_.values[node.results[0].ids[0]].alias_of];
    ++uses_[base];
    node.args[0] = base;
    graph_.values[node.results[0].ids[0]].alias_of = base;
  }

  ir::Graph& graph_;
  AliasSets aliases_;
  Renaming renaming_;
  std::vector<const ir::Node*> producer_;  // Producing node per value, if it is a view.
  std::vector<int> uses_;
};

}  // namespace

size_t simplify_views(ir::Graph& graph) { return Simplifier(graph).run(); }

}  // namespace tenon::passes
