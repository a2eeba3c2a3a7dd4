#include "ops/lowering.h"

namespace tenon::ops {

Lowering lowering_of(const ir::Graph& graph, const ir::Node& node) {
  if (const OpEntry* entry = lowerable(graph, node)) return entry;
  if (auto concatenation = concatenation_of(graph, node)) return *std::move(concatenation);
  if (auto pooling = pooling_of(graph, node)) return *std::move(pooling);
  if (auto movement = data_movement_of(graph, node)) return *std::move(movement);
  return std::monostate();
}

Lowerings lowerings_of(const ir::Graph& graph) {
  Lowerings out;
  out.reserve(graph.nodes.size());
  for (const ir::Node& node : graph.nodes) out.push_back(lowering_of(graph, node));
  return out;
}

}  // namespace tenon::ops
