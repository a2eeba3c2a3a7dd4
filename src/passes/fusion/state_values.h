// The values of a graph that are state of the program, such as weights.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace tenon::passes {

class StateValues {
 public:
  explicit StateValues(const ir::Graph& graph) : graph_(graph), is_state_(graph.values.size(), false) {
    for (const ir::Input& input : graph.inputs) is_state_[input.value] = input.role == ir::InputRole::state;
  }
  // Returns whether a value is state or a view of it.
  bool operator()(ir::ValueId id) const {
    while (graph_.values[id].alias_of != ir::kNoValue) id = graph_.values[id].alias_of;
    return is_state_[id];
  }

 private:
  const ir::Graph& graph_;
  std::vector<bool> is_state_;
};

}  // namespace tenon::passes
