// A range of a stream's ops that a replay runs in one flush, and the interface to whoever has a graph for it.
#pragma once

#include <functional>
#include <vector>

#include "capture/call_memory.h"
#include "capture/stream.h"

namespace tenon::capture {

// Ops [begin, end) of a stream, and the storages whose contents are needed afterwards.
struct OpRange {
  const Stream& stream;
  size_t begin, end;
  const std::vector<int32_t>& live;
};

// Runs a range by a compiled graph. Returns false if there is none; then the ops are run one by one. If it ran, the
// contents of the live storages are in the memory.
using OpRangeRunner = std::function<bool(const OpRange&, CallMemory&)>;

struct ReplayCounts {
  size_t replayed = 0;  // Number of deferred ops.
  size_t flushes = 0;
  size_t op_by_op = 0;   // Number of flushes without a graph.
  size_t backwards = 0;  // Number of backward passes that were deferred as a whole.
};

}  // namespace tenon::capture
