#include "passes/eliminate_dead.h"

namespace tenon::passes {

size_t eliminate_dead(ir::Graph& graph) {
  std::vector<bool> live(graph.values.size(), false);
  for (ir::ValueId id : graph.outputs)
    if (id != ir::kNoValue) live[id] = true;
  for (const ir::WriteBack& write : graph.write_backs) live[write.value] = true;
  for (const ir::WriteBack& write : graph.forward_write_backs) live[write.value] = true;

  std::vector<bool> keep(graph.nodes.size(), false);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const ir::Node& node = graph.nodes[i];
    bool needed = node.ordered;
    ir::for_each_definition(node, [&](ir::ValueId id) { needed |= live[id]; });
    if (!needed) continue;
    keep[i] = true;
    ir::for_each_operand(node, [&](ir::ValueId id) { live[id] = true; });
  }

  std::vector<ir::Node> nodes;
  size_t backward = graph.backward_start;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (i == backward) graph.backward_start = nodes.size();
    if (keep[i]) nodes.push_back(std::move(graph.nodes[i]));
  }
  if (backward != SIZE_MAX && backward >= keep.size()) graph.backward_start = nodes.size();
  size_t gone = keep.size() - nodes.size();
  graph.nodes = std::move(nodes);
  return gone;
}

}  // namespace tenon::passes
