// Memory planning by liveness: assigns each value that does not escape the run an offset in one block, or in the buffer of a result
// that is written later. Values with disjoint lifetimes may share memory.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"

namespace tenon::planner {

// How nodes use memory.
struct NodeMemory {
  // Whether a node writes its results to given buffers.
  std::function<bool(const ir::Node&)> takes_buffers;
  // Pairs of a result and an operand of a node that may share a buffer.
  std::function<std::vector<std::pair<ir::ValueId, ir::ValueId>>(const ir::Node&)> may_share;
};

// `types`: the type of each value.
ir::Arena plan_arena(const ir::Graph& graph, const std::vector<ir::FixedType>& types, const ir::Reuse& reuse,
                     const NodeMemory& node_memory);

}  // namespace tenon::planner
