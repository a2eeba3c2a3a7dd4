#include "passes/eliminate_dead.h"

#include "passes/rewrite.h"

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

  size_t before = graph.nodes.size();
  keep_nodes(graph, keep);
  return before - graph.nodes.size();
}

}  // namespace tenon::passes
