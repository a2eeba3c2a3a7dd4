// Lets values stand for others throughout a graph, and drops nodes.
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

  // In operands, aliases and writes of one node; a pass that walks the nodes in order sees the new names.
  void apply(ir::Node& node, ir::Graph& graph) const;
  // Everywhere. Nodes none of whose values anybody can read any more go.
  void apply(ir::Graph& graph) const;

 private:
  std::vector<ir::ValueId> to_;
};

// Keeps nodes[i] where keep[i]; the border of a joint graph moves along.
void keep_nodes(ir::Graph& graph, const std::vector<bool>& keep);

}  // namespace tenon::passes
