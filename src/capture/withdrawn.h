// Storages of the program's that ops waiting in a replay will write. Until these ops have run, the storage's
// pointer is withdrawn: the storage shows a reserved address instead, so that nobody reads old contents. A read
// at that address runs what waits and then shows a copy of the contents there, also when it comes late: the
// address belongs to the storage for as long as the storage lives.
#pragma once

#include <c10/core/StorageImpl.h>
#include <sys/types.h>

namespace tenon::capture {

// False if ops that write the storage must run at once: another replay has withdrawn its pointer, no addresses
// are left, or another thread has used it while its pointer was withdrawn. After the latter, the next writes run
// at once, and ever more of them the more often it happens.
bool may_withdraw(c10::StorageImpl* storage);

// False if another replay was faster. The storage must be held.
bool withdraw(c10::StorageImpl* storage);
void restore(c10::StorageImpl* storage);

// Where the contents are, withdrawn or not.
const void* memory_of(const c10::StorageImpl* storage);

// A thread other than the one that runs the replay used a storage whose pointer was withdrawn.
void note_use_by_other_thread(c10::StorageImpl* storage);

// Serves a read at the address of a storage, withdrawn now or earlier. False if the address is not one of these.
bool serve_withdrawn_read(const char* address, pid_t thread);

}  // namespace tenon::capture
