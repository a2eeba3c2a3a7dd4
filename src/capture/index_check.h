// Index checks for ops such as `embedding` that refuse some indices. They run when the program calls the op, so that the
// error is thrown there and not by a later flush.
#pragma once

#include "capture/listener.h"
#include "capture/tape.h"

namespace tenon::capture {

// The positions of the op's index arguments; empty for ops that take no indices.
c10::ArrayRef<int> index_arguments(const c10::OperatorHandle& op);

// Returns whether the op's kernel accepts the indices. Reads their contents.
bool indices_are_valid(const c10::OperatorHandle& op, const Stack& stack);
// Returns the size that all indices must be below; nothing if several index tensors have different ones.
std::optional<int64_t> index_limit(const c10::OperatorHandle& op, const Stack& stack);

}  // namespace tenon::capture
