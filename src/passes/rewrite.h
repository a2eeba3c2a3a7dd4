// Replaces values throughout a graph, and drops nodes.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace tenon::passes {

class Renaming {
 public:
  explicit Renaming(const ir::Graph& graph) : to_(graph.values.size(), ir::kNoValue) {}

  // Every use of `id` becomes one of `other`, which must be defined before it.
  void set(ir::ValueId id, ir::ValueId other) { to_[id] = (*this)(other); }
  ir::ValueId operator()(ir::ValueId id) const;

  // Renames operands, aliases and writes of one node, so that a pass which visits the nodes in order sees the new ids.
  void apply(ir::Node& node, ir::Graph& graph) const;
  // Renames values in the whole graph and drops nodes whose values were all replaced.
  void apply(ir::Graph& graph) const;

 private:
  std::vector<ir::ValueId> to_;
};

// Keeps nodes[i] if keep[i], and adjusts the backward start of a joint graph.
void keep_nodes(ir::Graph& graph, const std::vector<bool>& keep);

}  // namespace tenon::passes
