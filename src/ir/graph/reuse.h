// What an executor of a graph may do without making a copy, and where values lie that live inside a
// run only; filled by planner/reuse.h and planner/arena.h.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir {

struct Reuse {
  std::vector<std::vector<bool>> in_place;  // per node, per write
  std::vector<bool> no_op;                  // a scatter whose source is already in its place
  std::vector<std::vector<ValueId>> drops;  // values that die with a node
  std::vector<bool> written_already;        // per write-back: done in place, nothing to copy
  std::vector<int> buffer;                  // per value: the memory that it lies in, by number
};

// Memory for a run: one block, and the memory of results as long as these are not written.
struct Arena {
  struct Place {
    int32_t host = -1;  // in `hosts`, or kBlock or kOwn
    int64_t begin = 0;  // in bytes
  };
  static constexpr int32_t kBlock = -1, kOwn = -2;
  std::vector<Place> places;   // per value; kOwn: it has memory of its own
  std::vector<ValueId> hosts;  // results that are made before the first node runs
  int64_t bytes = 0;           // of the block
};

}  // namespace tenon::ir
