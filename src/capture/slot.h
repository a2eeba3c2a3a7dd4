// What a replay knows of each storage of its stream in the call that it follows.
#pragma once

#include <c10/core/Storage.h>

#include "capture/address_space.h"
#include "capture/withdrawn.h"

namespace tenon::capture {

// Memory that exists, while ops wait for it.
struct RealMemory {
  c10::Storage held;
  c10::DataPtr snapshot;  // what the ops are to read, if it may change meanwhile
};

// A storage of the stream, in this call.
struct Slot {
  c10::StorageImpl* impl = nullptr;
  c10::weak_intrusive_ptr<c10::StorageImpl> weak{c10::intrusive_ptr<c10::StorageImpl>()};
  int64_t moved = 0;  // bytes from the tape's place to this call's
  AddressSpan span;   // where a placeholder points to
  Withdrawable* pointer = nullptr;
  int32_t real = -1;            // index of its RealMemory
  bool owed = false;            // a placeholder whose contents wait
  bool waiting = false;         // ops that wait read or write it
  bool armed = false;           // asking for a pointer is announced
  bool handed_out = false;      // the program holds a mutable pointer
  bool read_out = false;        // the program holds a const pointer
  bool is_withdrawn = false;    // its pointer is (capture/withdrawn.h)
  bool shown = false;           // a copy is mapped at the span
  bool overlaps = false;        // another storage lies over the same memory
  bool written = false;         // ops that wait write it
  const void* range = nullptr;  // where its memory was when it was compared with others
};

}  // namespace tenon::capture
