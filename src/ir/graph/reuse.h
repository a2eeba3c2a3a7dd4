// Buffer reuse and the memory plan of a graph: which writes may happen in place, and where temporary
// values are stored. planner/reuse.h and planner/arena.h fill these in.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir {

struct Reuse {
  std::vector<std::vector<bool>> in_place;  // One flag per node and write: the write may happen in place.
  std::vector<bool> no_op;                  // One flag per node: a scatter whose source already aliases its destination.
  std::vector<std::vector<ValueId>> drops;  // The values whose last use each node is.
  std::vector<bool> written_already;        // One flag per write-back: it happened in place, so nothing is copied.
  std::vector<int> buffer;                  // The buffer id of each value.
};

// Memory of a run: one block, and the buffers of outputs that are not written yet.
struct Arena {
  struct Location {
    int32_t host = -1;  // Index in `hosts`, or kBlock or kOwn.
    int64_t begin = 0;  // Offset in bytes.
  };
  static constexpr int32_t kBlock = -1, kOwn = -2;
  std::vector<Location> locations;  // One location per value; kOwn means a separate allocation.
  std::vector<ValueId> hosts;       // Outputs that are allocated before the first node runs.
  int64_t bytes = 0;                // Size of the block.
};

}  // namespace tenon::ir
