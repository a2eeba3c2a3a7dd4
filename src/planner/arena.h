// Places for what a run makes and does not hand out: in one block, or in the memory of a result that
// is written later. Values that never live at the same time may have the same place.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"

namespace tenon::planner {

struct Placing {
  // Whether a node can be told where to put its results.
  std::function<bool(const ir::Node&)> takes_memory;
  // Pairs of a result and an operand of a node that may be one memory.
  std::function<std::vector<std::pair<ir::ValueId, ir::ValueId>>(const ir::Node&)> may_share;
};

ir::Arena plan_arena(const ir::Graph& graph, const ir::Reuse& reuse, const Placing& placing);

}  // namespace tenon::planner
