#include "passes/rewrite.h"

namespace tenon::passes {

using ir::kNoValue;
using ir::ValueId;

ValueId Renaming::operator()(ValueId id) const {
  while (id != kNoValue && static_cast<size_t>(id) < to_.size() && to_[id] != kNoValue) id = to_[id];
  return id;
}

void Renaming::apply(ir::Node& node, ir::Graph& graph) const {
  for (ir::Argument& arg : node.args) {
    if (auto* id = std::get_if<ValueId>(&arg)) *id = (*this)(*id);
    else if (auto* list = std::get_if<ir::ValueList>(&arg))
      for (ValueId& item : list->ids) item = (*this)(item);
  }
  for (ir::Node::Write& write : node.writes) write.before = (*this)(write.before);
  ir::for_each_definition(node, [&](ValueId id) { graph.values[id].alias_of = (*this)(graph.values[id].alias_of); });
}

void Renaming::apply(ir::Graph& graph) const {
  std::vector<bool> keep(graph.nodes.size(), true);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    ir::Node& node = graph.nodes[i];
    apply(node, graph);
    bool all = !node.ordered, any = false;
    ir::for_each_definition(node, [&](ValueId id) {
      any = true;
      all = all && (*this)(id) != id;
    });
    keep[i] = !(all && any);
  }
  keep_nodes(graph, keep);
  for (ir::WriteBack& write : graph.write_backs) write.value = (*this)(write.value);
  for (ir::WriteBack& write : graph.forward_write_backs) write.value = (*this)(write.value);
  for (ValueId& id : graph.outputs) id = (*this)(id);
}

void keep_nodes(ir::Graph& graph, const std::vector<bool>& keep) {
  std::vector<ir::Node> nodes;
  size_t backward = graph.backward_start;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (i == backward) graph.backward_start = nodes.size();
    if (keep[i]) nodes.push_back(std::move(graph.nodes[i]));
  }
  if (backward != SIZE_MAX && backward >= keep.size()) graph.backward_start = nodes.size();
  graph.nodes = std::move(nodes);
}

}  // namespace tenon::passes
