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
    int64_t of = -1;               // the only dimension of the group that it counts through, or -1
    std::vector<int64_t> strides;  // per buffer, 0 where it is broadcast or reduced
  };
  std::vector<Dim> kept;     // at least one
  std::vector<Dim> reduced;  // none if the group reduces nothing
  bool rows = false;         // the dimension that runs fastest in memory is a reduced one
};

// A buffer's strides along the dimensions of the group.
std::vector<int64_t> strides_of(const ir::Graph& graph, const ir::Group& group, ir::ValueId id);

// `apart`: dimensions of the group that stay loops of their own.
Space space_of(const ir::Graph& graph, const ir::Group& group, const std::vector<ir::ValueId>& buffers, const std::vector<size_t>& apart);

}  // namespace tenon::loops
