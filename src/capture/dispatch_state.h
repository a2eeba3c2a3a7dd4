// The calling thread's dispatch state and autograd counters.
#pragma once

#include "capture/tape_ops.h"

namespace tenon::capture {

DispatchState current_dispatch_state();

// Returns whether user calls can be recorded as a whole: grad mode and autocast are off.
bool can_record_calls(const DispatchState& state);

// The number of autograd nodes that this thread has created.
uint64_t nodes_made();

}  // namespace tenon::capture
