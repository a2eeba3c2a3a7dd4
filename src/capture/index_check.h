// Ops that refuse some indices are checked where the program makes them, so that the error comes
// from there and not from the flush.
#pragma once

#include "capture/listener.h"
#include "capture/tape.h"

namespace tenon::capture {

// The arguments of this op that hold indices; empty for other ops.
c10::ArrayRef<int> index_arguments(const c10::OperatorHandle& op);

// Would the op's kernel accept them? Reads their contents.
bool indices_are_good(const c10::OperatorHandle& op, const Stack& stack);

}  // namespace tenon::capture
