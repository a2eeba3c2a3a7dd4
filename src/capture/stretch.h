// A part of a stream that is run at once: what a replay hands to whoever has a graph for it.
#pragma once

#include <functional>
#include <vector>

#include "capture/call_memory.h"
#include "capture/stream.h"

namespace tenon::capture {

// Ops [begin, end) of a stream, and the storages whose contents are needed afterwards.
struct Stretch {
  const Stream& stream;
  size_t begin, end;
  const std::vector<int32_t>& live;
};

// A faster way to run a stretch than op by op. True if it ran; then `live` is in `memory`.
using StretchRunner = std::function<bool(const Stretch&, CallMemory&)>;

struct ReplayCounts {
  size_t replayed = 0;  // ops that waited
  size_t flushes = 0;
  size_t op_by_op = 0;  // of those, without a graph
};

}  // namespace tenon::capture
