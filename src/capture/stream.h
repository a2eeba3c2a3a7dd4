// Streams: the tapes that one compiled function has shown so far, as a tree. Two streams agree in
// their ops, constants and storage numbers up to where they part.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "capture/tape.h"

namespace tenon::capture {

struct Stream {
  Tape tape;
  size_t number = 0;
  bool derived = false;  // it never ran: it follows from another one, with other sizes
  // By number, for each stream that was kept when this one came: how many ops they share.
  std::unordered_map<size_t, size_t> common;
};

using StreamList = std::vector<std::shared_ptr<const Stream>>;  // the newest first

class Streams {
 public:
  // `parent` may be null; the new tape has its first `shared` ops from there.
  std::shared_ptr<const Stream> add(Tape tape, const Stream* parent, size_t shared, bool derived = false);
  std::shared_ptr<const StreamList> list() const;
  // To the front: it is tried first from now on.
  void prefer(const Stream& stream);
  // Without the derived ones.
  size_t recorded() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  size_t next_ = 0;
  std::shared_ptr<const StreamList> list_ = std::make_shared<StreamList>();
};

// How many ops two streams of one set share.
size_t shared_ops(const Stream& a, const Stream& b);

// The first `ops` ops of a tape, whose lists were as long as `end` then.
Tape prefix(const Tape& tape, size_t ops, const TapeMark& end);
// How long a tape's lists were before this op.
TapeMark mark_at(const Tape& tape, size_t op);

}  // namespace tenon::capture
