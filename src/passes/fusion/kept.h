// What a program keeps from call to call: its weights.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace tenon::passes {

class Kept {
 public:
  explicit Kept(const ir::Graph& graph) : graph_(graph), is_kept_(graph.values.size(), false) {
    for (const ir::Input& input : graph.inputs) is_kept_[input.value] = input.role == ir::InputRole::state;
  }
  // Or a view of it.
  bool operator()(ir::ValueId id) const {
    while (graph_.values[id].alias_of != ir::kNoValue) id = graph_.values[id].alias_of;
    return is_kept_[id];
  }

 private:
  const ir::Graph& graph_;
  std::vector<bool> is_kept_;
};

}  // namespace tenon::passes
