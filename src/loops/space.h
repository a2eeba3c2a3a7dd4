// The iteration space of a group: the fewest loops that visit all elements, with the smallest stride
// innermost.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/group.h"

namespace tenon::loops {

struct Space {
  struct LoopDim {
    ir::Size extent = 1;
    int64_t group_dim = -1;  // The group dimension if the loop covers exactly one, otherwise -1.
    ir::SizeList strides;    // One entry per buffer; 0 where it is broadcast or reduced.
  };
  std::vector<LoopDim> kept;        // Has at least one dimension.
  std::vector<LoopDim> reduced;     // Empty if the group reduces nothing.
  bool is_fastest_reduced = false;  // The innermost dimension in memory is reduced.
};

// Returns a value's strides along the dimensions of the group.
ir::SizeList strides_of(const ir::Graph& graph, const ir::Group& group, ir::ValueId id);

// `apart`: dimensions of the group that must not be collapsed with others.
Space space_of(const ir::Graph& graph, const ir::Group& group, const std::vector<ir::ValueId>& buffers, const std::vector<size_t>& apart);

}  // namespace tenon::loops
