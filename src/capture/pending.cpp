#include "capture/pending.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/process.h"
#include "bridge/access.h"
#include "capture/address_space.h"
#include "capture/faults.h"
#include "capture/withdrawn.h"

namespace tenon::capture {
namespace {

thread_local bool t_unannounced = false;
thread_local const PendingReplay* t_own = nullptr;

struct ReplayRegistry {
  std::mutex mutex;
  std::vector<std::shared_ptr<PendingReplay>> replays;
  std::atomic<size_t> count{0};
};

ReplayRegistry& registry() {
  static auto* registry = new ReplayRegistry;
  return *registry;
}
// Created when the library is loaded, because a fork in the middle of its creation would leave it locked in the child.
[[maybe_unused]] const ReplayRegistry& g_registry = registry();

std::vector<std::shared_ptr<PendingReplay>> all_replays() {
  ReplayRegistry& all = registry();
  if (all.count.load(std::memory_order_acquire) == 0) return {};
  ForkSafeLock lock(all.mutex);
  return all.replays;
}

void on_mutable_access(c10::StorageImpl* storage) { announce_access(storage, AccessKind::write); }

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
  ReplayRegistry& all = registry();
  ForkSafeLock lock(all.mutex);
  all.replays.push_back(replay_);
  all.count.store(all.replays.size(), std::memory_order_release);
}

RegisteredReplay::~RegisteredReplay() {
  ReplayRegistry& all = registry();
  ForkSafeLock lock(all.mutex);
  std::erase(all.replays, replay_);
  all.count.store(all.replays.size(), std::memory_order_release);
}

void abandon_replays_of_other_threads() {
  auto* abandoned = new std::vector<std::shared_ptr<PendingReplay>>;
  ReplayRegistry& all = registry();
  all.replays.swap(*abandoned);
  for (const auto& replay : *abandoned)
    if (replay->thread() == this_thread()) all.replays.push_back(replay);
  all.count.store(all.replays.size(), std::memory_order_release);
}

bool other_replays_exist() { return registry().count.load(std::memory_order_acquire) > 1; }

void if_alone(const std::function<void()>& f) {
  ReplayRegistry& all = registry();
  ForkSafeLock lock(all.mutex);
  if (all.replays.size() <= 1) f();
}

void announce_access(c10::StorageImpl* storage, AccessKind access, const PendingReplay* except) {
  if (t_unannounced) return;
  for (const auto& replay : all_replays())
    if (replay.get() != except && replay.get() != t_own) replay->on_access(storage, access, this_thread());
}

void announce_access_by(pid_t thread, c10::StorageImpl* storage, AccessKind access) {
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
