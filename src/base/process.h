// The lifetime of the library within the process, and forks of the process.
#pragma once

#include <mutex>

namespace tenon {

// Prevents the library from being unloaded until the process ends, because tensors and libtorch's dispatcher hold pointers
// into it. Also registers the exit handler of process_is_ending. Cheap after the first call.
void keep_library_loaded();

// Returns whether exit() has run the handlers that were registered after the first call of keep_library_loaded. Objects that
// Tenon depends on may be destroyed then.
bool process_is_ending();

// A fork waits until no other thread is in such a scope. Threads enter one for work that holds locks of other libraries or initialises
// static variables: the child of a fork has none of these threads, so it would wait forever for what they hold. The work may start
// threads, but must not run code of the user, which may wait for the thread that forks. Costs a few nanoseconds.
class NoForkScope {
 public:
  NoForkScope();
  ~NoForkScope();
  NoForkScope(const NoForkScope&) = delete;
  NoForkScope& operator=(const NoForkScope&) = delete;
};

// Locks a mutex that the child of a fork may need. The order matters: a thread that waited for a fork to end while it holds the mutex
// would deadlock with a fork handler that needs it.
class ForkSafeLock {
 public:
  explicit ForkSafeLock(std::mutex& mutex) : lock_(mutex) {}

 private:
  NoForkScope scope_;
  std::lock_guard<std::mutex> lock_;
};

// The fork handlers call these. No thread enters a NoForkScope between the two.
void wait_for_no_fork_scopes();
void end_of_fork();

}  // namespace tenon
