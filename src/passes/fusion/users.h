// The users of each value.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace tenon::passes {

class Users {
 public:
  explicit Users(const ir::Graph& graph) : nodes_(graph.values.size()), escapes_(graph.values.size(), false) {
    for (size_t i = 0; i < graph.nodes.size(); ++i)
      ir::for_each_operand(graph.nodes[i], [&](ir::ValueId id) {
        if (nodes_[id].empty() || nodes_[id].back() != i) nodes_[id].push_back(i);
      });
    for (ir::ValueId id : graph.outputs)
      if (id != ir::kNoValue) escapes_[id] = true;
    for (const auto* writes : {&graph.write_backs, &graph.forward_write_backs})
      for (const ir::WriteBack& write : *writes) escapes_[write.value] = true;
  }

  static constexpr size_t kNone = SIZE_MAX;
  const std::vector<size_t>& of(ir::ValueId id) const { return nodes_[id]; }
  // Returns the only user of a value that does not escape from the graph, or kNone.
  size_t only(ir::ValueId id) const { return nodes_[id].size() == 1 && !escapes_[id] ? nodes_[id][0] : kNone; }

 private:
  std::vector<std::vector<size_t>> nodes_;
  std::vector<bool> escapes_;  // The value is an output or is written back.
};

}  // namespace tenon::passes
