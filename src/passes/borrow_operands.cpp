#include "passes/borrow_operands.h"

#include <algorithm>
#include <utility>

#include "ir/graph/group.h"
#include "ir/graph/node.h"

namespace tenon::passes {

namespace {

constexpr size_t kBorrowArgument = 4;  // Index of the argument that allows the op to return its operand.

// Returns the only node that reads a value or its views, if it writes nothing; otherwise null.
const ir::Node* only_reader(const ir::Graph& graph, ir::ValueId id) {
  auto is_seen = [&](ir::ValueId value) {
    return std::count(graph.outputs.begin(), graph.outputs.end(), value) > 0 ||
           std::any_of(graph.write_backs.begin(), graph.write_backs.end(), [&](const ir::WriteBack& w) { return w.value == value; });
  };
  for (;;) {
    if (is_seen(id)) return nullptr;
    const ir::Node* reader = nullptr;
    for (const ir::Node& node : graph.nodes) {
      bool reads = false;
      ir::for_each_operand(node, [&](ir::ValueId operand) { reads |= operand == id; });
      if (!reads) continue;
      if (reader || !node.writes.empty()) return nullptr;
      reader = &node;
    }
    if (!reader || !ir::is_view(graph, *reader)) return reader;
    id = ir::only_result(*reader);
    if (id == ir::kNoValue) return nullptr;
  }
}

}  // namespace

size_t borrow_operands(ir::Graph& graph) {
  size_t changes = 0;
  for (ir::Node& node : graph.nodes) {
    const bool* borrows = node.op == "tenon::bank_transform_input" ? ir::constant<bool>(node, kBorrowArgument) : nullptr;
    if (!borrows || *borrows || ir::only_result(node) == ir::kNoValue) continue;
    const ir::Node* reader = only_reader(graph, ir::only_result(node));
    bool has_apply = reader && std::any_of(reader + 1, std::as_const(graph.nodes).data() + graph.nodes.size(), [&](const ir::Node& later) {
                       if (later.op != "tenon::bank_apply_" || ir::operand(later, 1) != ir::operand(node, 0)) return false;
                       bool is_same = later.args[3] == node.args[2] && later.args[4] == node.args[3];  // The arguments are bank and layer.
                       for (ir::ValueId y = ir::operand(later, 0); is_same && y != ir::kNoValue; y = graph.values[y].alias_of)
                         if (y == ir::only_result(*reader)) return true;
                       return false;
                     });
    if (!has_apply) continue;
    node.args[kBorrowArgument] = ir::Attribute(true);
    ++changes;
  }
  return changes;
}

}  // namespace tenon::passes
