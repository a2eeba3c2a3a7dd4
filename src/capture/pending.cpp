#include "capture/pending.h"

#include <c10/core/CPUAllocator.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "bridge/access.h"
#include "capture/address_space.h"
#include "capture/faults.h"
#include "capture/withdrawn.h"

namespace tenon::capture {
namespace {

thread_local bool t_unannounced = false;
thread_local const PendingReplay* t_own = nullptr;

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<PendingReplay>> replays;
  std::atomic<size_t> count{0};
};

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

Registry& registry() {
  static Registry* registry = [] {
    pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    return new Registry;
  }();
  return *registry;
}

// A fork must not catch another thread inside one of these locks: nobody would unlock it in the child.
void before_fork() {
  registry().mutex.lock();
  lock_withdrawn();
  lock_addresses();
}

void after_fork_in_parent() {
  unlock_addresses();
  unlock_withdrawn();
  registry().mutex.unlock();
}

// The child has only the thread that forked. Replays of the others never go on; they may hold their own locks.
void after_fork_in_child() {
  auto* gone = new std::vector<std::shared_ptr<PendingReplay>>;
  Registry& all = registry();
  all.replays.swap(*gone);
  for (const auto& replay : *gone)
    if (replay->thread() == this_thread()) all.replays.push_back(replay);
  all.count.store(all.replays.size(), std::memory_order_release);
  after_fork_in_parent();
}

std::vector<std::shared_ptr<PendingReplay>> all_replays() {
  Registry& all = registry();
  if (all.count.load(std::memory_order_acquire) == 0) return {};
  std::lock_guard lock(all.mutex);
  return all.replays;
}

void on_mutable_access(c10::StorageImpl* storage) { announce_access(storage, Access::write); }

bool serve_fault(const Fault& fault) {
  if (serve_withdrawn(fault)) return true;
  if (fault.is_write) return false;
  for (const auto& replay : all_replays())
    if (replay->on_fault(fault.address)) return true;
  return false;
}

}  // namespace

RegisteredReplay::RegisteredReplay(std::shared_ptr<PendingReplay> replay) : replay_(std::move(replay)) {
  bridge::set_listener(&on_mutable_access);
  serve_faults(&serve_fault);
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  all.replays.push_back(replay_);
  all.count.store(all.replays.size(), std::memory_order_release);
}

RegisteredReplay::~RegisteredReplay() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  std::erase(all.replays, replay_);
  all.count.store(all.replays.size(), std::memory_order_release);
}

bool other_replays_exist() { return registry().count.load(std::memory_order_acquire) > 1; }

void if_alone(const std::function<void()>& f) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  if (all.replays.size() <= 1) f();
}

void announce_access(c10::StorageImpl* storage, Access access, const PendingReplay* except) {
  if (t_unannounced) return;
  for (const auto& replay : all_replays())
    if (replay.get() != except && replay.get() != t_own) replay->on_access(storage, access, this_thread());
}

void announce_access_by(pid_t thread, c10::StorageImpl* storage, Access access) {
  for (const auto& replay : all_replays()) replay->on_access(storage, access, thread);
}

Unannounced::Unannounced() : before_(t_unannounced) { t_unannounced = true; }
Unannounced::~Unannounced() { t_unannounced = before_; }

OwnAccess::OwnAccess(const PendingReplay* replay) : before_(t_own) { t_own = replay; }
OwnAccess::~OwnAccess() { t_own = before_; }

c10::Storage make_placeholder(char* address, size_t bytes) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(address, c10::kCPU), c10::GetCPUAllocator(),
                       /*resizable=*/true);
  bridge::arm_new(storage.unsafeGetStorageImpl());
  return storage;
}

}  // namespace tenon::capture
