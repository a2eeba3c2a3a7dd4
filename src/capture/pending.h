// Contents that are still pending: which replays of the process have ops waiting, and how they learn that
// somebody is about to use the memory that those ops read or write.
#pragma once

#include <c10/core/Storage.h>
#include <sys/types.h>

#include <functional>
#include <memory>

namespace tenon::capture {

enum class Access : uint8_t { read, write };

// A replay with ops that wait.
class PendingReplay {
 public:
  virtual ~PendingReplay() = default;
  // A thread is about to be given a pointer to the storage's contents. Called on any thread.
  virtual void on_access(c10::StorageImpl* storage, Access access, pid_t thread) = 0;
  // The thread that runs the program.
  virtual pid_t thread() const = 0;
  // Somebody read at a reserved address; true if it is one of this replay's and the contents are there now.
  virtual bool on_fault(const char* address) = 0;
};

// While it lives, the replay is told of accesses on all threads.
class RegisteredReplay {
 public:
  explicit RegisteredReplay(std::shared_ptr<PendingReplay> replay);
  ~RegisteredReplay();
  RegisteredReplay(const RegisteredReplay&) = delete;
  RegisteredReplay& operator=(const RegisteredReplay&) = delete;

 private:
  std::shared_ptr<PendingReplay> replay_;
};

// True while another replay besides the caller's is registered.
bool other_replays_exist();
// Calls f if the caller's replay is the only one. No other one is registered meanwhile.
void if_alone(const std::function<void()>& f);

// Tells all replays but `except` that this thread, or the given one, is about to access the storage.
void announce_access(c10::StorageImpl* storage, Access access, const PendingReplay* except = nullptr);
void announce_access_by(pid_t thread, c10::StorageImpl* storage, Access access);

// While it lives, accesses of this thread are not announced.
class Unannounced {
 public:
  Unannounced();
  ~Unannounced();

 private:
  bool before_;
};

// While it lives, accesses of this thread are announced to other replays only: they are this one's own.
class OwnAccess {
 public:
  explicit OwnAccess(const PendingReplay* replay);
  ~OwnAccess();

 private:
  const PendingReplay* before_;
};

// A storage without contents at an address of its own. Asking for its contents is announced.
c10::Storage make_placeholder(char* address, size_t bytes);

}  // namespace tenon::capture
