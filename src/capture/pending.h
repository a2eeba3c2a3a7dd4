// The registry of replays with deferred ops. Before any thread accesses memory that deferred ops read or write, the access
// is announced to these replays.
#pragma once

#include <c10/core/Storage.h>
#include <sys/types.h>

#include <functional>
#include <memory>

namespace tenon::capture {

enum class AccessKind : uint8_t { read, write };

// A replay with deferred ops.
class PendingReplay {
 public:
  virtual ~PendingReplay() = default;
  // Called before `thread` gets a pointer to the storage's contents. May be called on any thread.
  virtual void on_access(c10::StorageImpl* storage, AccessKind access, pid_t thread) = 0;
  // The thread that runs the replayed program.
  virtual pid_t thread() const = 0;
  // Serves a read at a reserved address. Returns whether the address belongs to this replay and is readable now.
  virtual bool on_fault(const char* address) = 0;
};

// Registers a replay for its lifetime: accesses on all threads are announced to it.
class RegisteredReplay {
 public:
  explicit RegisteredReplay(std::shared_ptr<PendingReplay> replay);
  ~RegisteredReplay();
  RegisteredReplay(const RegisteredReplay&) = delete;
  RegisteredReplay& operator=(const RegisteredReplay&) = delete;

 private:
  std::shared_ptr<PendingReplay> replay_;
};

// Called in the child of a fork, which has only the thread that forked. Replays of other threads never continue there, and their locks may
// be held, so they are leaked.
void abandon_replays_of_other_threads();

// Returns whether a replay other than the caller's is registered.
bool other_replays_exist();
// Calls f if the caller's replay is the only one, and blocks other registrations meanwhile.
void if_alone(const std::function<void()>& f);

// Announce to all replays except `except` that this thread, or the given one, is about to access the storage.
void announce_access(c10::StorageImpl* storage, AccessKind access, const PendingReplay* except = nullptr);
void announce_access_by(pid_t thread, c10::StorageImpl* storage, AccessKind access);

// Suppresses the announcement of this thread's accesses while it exists.
class Unannounced {
 public:
  Unannounced();
  ~Unannounced();

 private:
  bool before_;
};

// Excludes one replay from the announcement of this thread's accesses while it exists, because the accesses are its own.
class OwnAccess {
 public:
  explicit OwnAccess(const PendingReplay* replay);
  ~OwnAccess();

 private:
  const PendingReplay* before_;
};

// Makes a storage without contents at the given reserved address. It is armed: an access to its contents is announced.
c10::Storage make_placeholder(char* address, size_t bytes);

}  // namespace tenon::capture
