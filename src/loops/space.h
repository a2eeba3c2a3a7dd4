// The iteration space of a group: the fewest loops that visit all elements, the one that runs
// fastest in memory last.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/group.h"

namespace tenon::loops {

struct Space {
  struct Dim {
    int64_t extent = 1;
    std::vector<int64_t> strides;  // per buffer, 0 where it is broadcast
  };
  std::vector<Dim> dims;  // at least one
};

// `leader`: the buffer whose layout decides the order.
Space space_of(const ir::Graph& graph, const std::vector<int64_t>& sizes, const std::vector<ir::ValueId>& buffers, size_t leader);

}  // namespace tenon::loops
