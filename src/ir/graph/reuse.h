// What an executor of a graph may do without making a copy; filled by planner/reuse.h.
#pragma once

#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir {

struct Reuse {
  std::vector<std::vector<bool>> in_place;  // per node, per write
  std::vector<bool> no_op;                  // a scatter whose source is already in its place
  std::vector<std::vector<ValueId>> drops;  // values that die with a node
  std::vector<bool> written_already;        // per write-back: done in place, nothing to copy
};

}  // namespace tenon::ir
