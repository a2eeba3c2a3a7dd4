// Describes a backward that has run node by node, so that a later one that is equal can be deferred as a whole.
#pragma once

#include <functional>
#include <optional>

#include "capture/backward.h"
#include "capture/recorder.h"

namespace tenon::capture {

// The autograd graph of a backward inside of the run, or of the run itself; nullopt if it cannot be deferred as a whole.
std::optional<BackwardGraph> graph_of(const BackwardCall& call, const RecordOptions& options);

// A storage's id, and the number of bytes between the tape's offsets and those of the run.
struct StorageOnTape {
  int32_t id;
  int64_t shift;
};
using FindStorage = std::function<std::optional<StorageOnTape>(const c10::StorageImpl*)>;

// `start` was taken before the backward; the tape ends after it. Returns nullopt if it cannot be deferred as a whole.
std::optional<Backward> describe_backward(BackwardStart start, const Tape& tape, const FindStorage& find);

}  // namespace tenon::capture
