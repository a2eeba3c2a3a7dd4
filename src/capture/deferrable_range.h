// Ranges of ops that a replay can defer as a whole, because one action of the program (a user call, a backward) implies all
// of them.
#pragma once

#include "capture/tape.h"

namespace tenon::capture {

// Describes ops [begin, end) of a tape. Returns nullopt if one of them must be seen by itself, or uses memory that the
// program first used inside the range and that is not among the `given` storages.
std::optional<DeferrableRange> deferrable_range(const Tape& tape, size_t begin, size_t end, const std::vector<int32_t>& given);

}  // namespace tenon::capture
