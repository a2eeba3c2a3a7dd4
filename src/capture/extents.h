// Extents: many ops of a tape that can be let wait at once, because one thing that the program did
// (a call of its own, a backward) tells them all.
#pragma once

#include "capture/tape.h"

namespace tenon::capture {

// Ops [begin, end) of a tape; nothing if one of them must be met by itself, or works on memory that
// the program first showed inside, other than `given`.
std::optional<Extent> extent_of(const Tape& tape, size_t begin, size_t end, const std::vector<int32_t>& given);

Surroundings surroundings();
// Are calls of the user worth telling apart here? Not where autograd or autocast are at work.
bool can_note_calls(const Surroundings& around);

// Autograd nodes that this thread has made so far.
uint64_t nodes_made();

}  // namespace tenon::capture
