// Withdrawn storages. While deferred ops of a replay still have to write a storage of the program, the storage's pointer is
// replaced by a reserved address, so that no thread reads stale contents. A read at that address flushes the deferred ops
// and maps a copy of the contents there. The address belongs to the storage for the storage's lifetime, so that late reads
// are served too.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>
#include <sys/types.h>

#include "capture/faults.h"

namespace tenon::capture {

// The pointer of one storage. The object stays the same for the storage's lifetime.
class Withdrawable;

// A cached lookup. It is valid as long as no entry has been removed.
struct CachedPointer {
  const c10::StorageImpl* storage = nullptr;
  Withdrawable* pointer = nullptr;
  uint64_t removals = 0;
};

// Returns null if no reserved addresses are left.
Withdrawable* find_withdrawable(c10::StorageImpl* storage, CachedPointer& last);
// Returns false if ops that write the storage must not be deferred: another replay has withdrawn its pointer, or another
// thread has used the storage while it was withdrawn. Each time the latter happens, twice as many of the following writes
// are not deferred.
bool may_withdraw(Withdrawable& pointer);

// Returns false if another thread has withdrawn it first. The caller must hold the storage.
bool withdraw(Withdrawable& pointer);
void restore(c10::ArrayRef<Withdrawable*> pointers);
// The address of the contents. Only the replay that withdrew the pointer may call it.
const void* withdrawn_memory(const Withdrawable& pointer);

// The address of the storage's contents, withdrawn or not.
const void* memory_of(const c10::StorageImpl* storage);

// Records that a thread other than the replay's has used a storage while it was withdrawn.
void note_use_by_other_thread(c10::StorageImpl* storage);

// Unmaps the copy at the storage's reserved address, because the program has written the storage since.
void retire_copy(c10::StorageImpl* storage);

// The table's lock, which is held during a fork so that the child finds it unlocked.
void lock_withdrawn();
void unlock_withdrawn();

// Serves an access at the reserved address of a storage that is or was withdrawn. Returns false for other addresses, and
// for a write by the thread that withdrew the pointer: the program writes through a const pointer. A write by another thread
// is a data race of the program; it is lost, but does no other harm.
bool serve_withdrawn(const Fault& fault);

}  // namespace tenon::capture
