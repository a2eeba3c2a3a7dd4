// The state of each storage of a stream in the call that a replay follows.
#pragma once

#include <c10/core/Storage.h>

#include "capture/address_space.h"
#include "capture/withdrawn.h"

namespace tenon::capture {

// Keeps memory alive that deferred ops use.
struct HeldMemory {
  c10::Storage storage;
  c10::DataPtr snapshot;  // The contents that the deferred ops must read, if the memory may change meanwhile.
};

// A storage of the stream in this call.
struct CallStorage {
  c10::StorageImpl* impl = nullptr;
  c10::weak_intrusive_ptr<c10::StorageImpl> weak{c10::intrusive_ptr<c10::StorageImpl>()};
  int64_t shift = 0;  // Number of bytes between the tape's offsets and this call's.
  AddressSpan span;   // The reserved addresses of a placeholder.
  Withdrawable* pointer = nullptr;
  int32_t held = -1;                       // Index of the HeldMemory, or -1.
  bool pending = false;                    // A placeholder whose contents deferred ops still have to compute.
  bool used_by_deferred = false;           // Deferred ops read or write it.
  bool written_by_deferred = false;        // Deferred ops write it.
  bool armed = false;                      // A request for a mutable pointer is announced.
  bool mutable_pointer_given = false;      // The program may hold a mutable pointer.
  bool const_pointer_given = false;        // The program may hold a const pointer.
  bool is_withdrawn = false;               // The storage's pointer is withdrawn (capture/withdrawn.h).
  bool copy_mapped = false;                // A copy of the contents is mapped at the span.
  bool overlaps = false;                   // Another storage covers the same memory.
  const void* compared_address = nullptr;  // The address at which it was last compared with other storages.
};

}  // namespace tenon::capture
