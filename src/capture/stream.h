// Streams: the recorded tapes of one compiled function, as a tree. Two streams have the same ops, constants and storage ids
// up to their common prefix.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "capture/tape.h"

namespace tenon::capture {

struct Stream {
  Tape tape;
  static constexpr size_t kNoId = SIZE_MAX;
  size_t id = 0;         // kNoId while the stream is being derived.
  size_t root = 0;       // The id of the recorded stream that this one was derived from, or its own id.
  bool derived = false;  // The stream was not recorded but derived from another stream, with other sizes.
  // The number of common leading ops with each older stream, by that stream's id.
  std::unordered_map<size_t, size_t> common;
  // The same, where sizes and integers may differ.
  std::unordered_map<size_t, size_t> alike;
};

using StreamList = std::vector<std::shared_ptr<const Stream>>;  // Most recently used first.

class Streams {
 public:
  // Adds a tape whose first `shared` ops are those of `parent`, which may be null, and whose first `alike` ops differ from its only in
  // sizes.
  std::shared_ptr<const Stream> add(Tape tape, const Stream* parent, size_t shared, size_t alike, bool derived = false);
  std::shared_ptr<const StreamList> list() const;
  // Moves the stream to the front of the list, so that it is tried first.
  void prefer(const Stream& stream);
  // The number of streams that are not derived.
  size_t recorded() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  size_t next_ = 0;
  std::shared_ptr<const StreamList> list_ = std::make_shared<StreamList>();
};

// The number of common leading ops of two streams of one function.
size_t shared_ops(const Stream& a, const Stream& b);

// The same, where sizes and integers may differ.
size_t alike_ops(const Stream& a, const Stream& b);

// The first `ops` ops of a tape; `end` is the position after them.
Tape prefix(const Tape& tape, size_t ops, const TapePosition& end);
// The position before this op.
TapePosition position_at(const Tape& tape, size_t op);

}  // namespace tenon::capture
