// Storages of the program's that ops waiting in a replay will write. Until these ops have run, the storage's
// pointer is withdrawn: the storage shows a reserved address instead, so that nobody reads old contents. A read
// at that address runs what waits and then shows a copy of the contents there, also when it comes late: the
// address belongs to the storage for as long as the storage lives.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>
#include <sys/types.h>

#include "capture/faults.h"

namespace tenon::capture {

// The pointer of one storage. It stays the same object for as long as the storage lives.
class Withdrawable;

// What was found for a storage last time. It need not be looked up again while nothing was removed.
struct FoundPointer {
  const c10::StorageImpl* storage = nullptr;
  Withdrawable* pointer = nullptr;
  uint64_t removals = 0;
};

// Null if no addresses are left for it.
Withdrawable* find_withdrawable(c10::StorageImpl* storage, FoundPointer& last);
// False if ops that write the storage must run at once: another replay has withdrawn its pointer, or another
// thread has used it while it was withdrawn. After the latter the next writes run at once, and ever more of them
// the more often it happens.
bool may_withdraw(Withdrawable& pointer);

// False if another thread was faster. The storage must be held.
bool withdraw(Withdrawable& pointer);
void restore(c10::ArrayRef<Withdrawable*> pointers);
// Where the contents are; for the replay that withdrew it.
const void* withdrawn_memory(const Withdrawable& pointer);

// Where the contents are, withdrawn or not.
const void* memory_of(const c10::StorageImpl* storage);

// A thread other than the one that runs the replay used a storage whose pointer was withdrawn.
void note_use_by_other_thread(c10::StorageImpl* storage);

// The program wrote the storage at once: a copy that is shown at its address is no longer right.
void retire_copy(c10::StorageImpl* storage);

// Around a fork: no other thread is inside meanwhile.
void lock_withdrawn();
void unlock_withdrawn();

// Serves an access at the address of a storage, withdrawn now or earlier. False if the address is not one of these,
// and for a write by the thread that withdrew the pointer: the program writes through a const pointer. A write by
// another thread is a race that the program does not lock; it does no harm, but is lost.
bool serve_withdrawn(const Fault& fault);

}  // namespace tenon::capture
