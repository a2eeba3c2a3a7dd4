#include "capture/withdrawn.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/pointer_map.h"
#include "base/process.h"
#include "bridge/access.h"
#include "capture/address_space.h"
#include "capture/pending.h"

namespace tenon::capture {
namespace {

// How many writes are not deferred after another thread has used a withdrawn storage: the first time, and at most. Each time doubles
// the number. Estimates, not measured.
constexpr uint32_t kMinUndeferredWrites = 64, kMaxUndeferredWrites = 1 << 14;
// Number of entries before destroyed storages are looked for. Estimate, not measured.
constexpr size_t kMinEntriesToSweep = 64;

}  // namespace

// The number of copies that are mapped in the process.
std::atomic<int64_t> g_mapped_copies{0};

// A spin lock. It is held for a few instructions while a pointer is withdrawn or restored or a copy is mapped; a mutex would
// make training steps slower.
class SpinGuard {
 public:
  explicit SpinGuard(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~SpinGuard() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag& flag_;
};

class Withdrawable {
 public:
  std::atomic_flag busy;  // Protects the other members.
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  AddressSpan span;
  c10::DataPtr memory;  // The storage's memory while the pointer is withdrawn.
  std::atomic<bool> withdrawn{false};
  pid_t thread = 0;          // The thread that withdrew it last.
  bool copy_mapped = false;  // A copy of the contents is mapped at the span.
  std::atomic<uint32_t> undeferred_writes{0};
  uint32_t next_undeferred_writes = kMinUndeferredWrites;

  Withdrawable(c10::StorageImpl* impl, AddressSpan addresses)
      : storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl)), span(addresses) {}
  ~Withdrawable() {
    remove_copy();
    release_addresses(span);
  }

  void map_contents(const void* contents, bool writable) {
    int before = copy_mapped;
    copy_mapped = map_copy(span, contents, writable);
    g_mapped_copies += static_cast<int>(copy_mapped) - before;
  }
  void remove_copy() {
    if (!copy_mapped) return;
    unmap_copy(span);
    copy_mapped = false;
    --g_mapped_copies;
  }
};

namespace {

struct WithdrawnTable {
  std::mutex mutex;
  PointerMap indices;                                  // Index into `entries` by storage.
  std::vector<std::unique_ptr<Withdrawable>> entries;  // Null where an entry was removed.
  std::map<const char*, Withdrawable*> by_address;
  size_t sweep_at = kMinEntriesToSweep;
  std::atomic<uint64_t> removals{0};

  static WithdrawnTable& get() {
    static WithdrawnTable* table = new WithdrawnTable;
    return *table;
  }

  Withdrawable* find(const c10::StorageImpl* storage) {
    int32_t index = indices.find(storage);
    return index < 0 ? nullptr : entries[index].get();
  }

  Withdrawable* find(const char* address) {
    auto it = by_address.upper_bound(address);
    if (it == by_address.begin()) return nullptr;
    Withdrawable* entry = std::prev(it)->second;
    return entry->span.contains(address) ? entry : nullptr;
  }

  // Returns null if no reserved addresses are left.
  Withdrawable* find_or_add(c10::StorageImpl* storage) {
    Withdrawable* known = find(storage);
    if (known && known->span.bytes == storage->nbytes()) return known;
    if (known && known->withdrawn) return nullptr;
    if (known) erase(known);  // The storage was resized.
    if (entries.size() >= sweep_at) sweep();
    AddressSpan span = reserve_addresses(storage->nbytes());
    if (!span) {
      sweep();
      span = reserve_addresses(storage->nbytes());
    }
    if (!span) return nullptr;
    indices.insert(storage, static_cast<int32_t>(entries.size()));
    entries.push_back(std::make_unique<Withdrawable>(storage, span));
    by_address.emplace(span.begin, entries.back().get());
    return entries.back().get();
  }

  // Readers of a cached entry compare `removals` first, so it is incremented before the entry is destroyed.
  void erase(Withdrawable* entry) {
    ++removals;
    const c10::StorageImpl* storage = entry->storage._unsafe_get_target();
    int32_t index = indices.find(storage);
    indices.erase(storage);
    by_address.erase(entry->span.begin);
    entries[index].reset();
  }

  // Removes the entries of destroyed storages. An entry holds its storage weakly, so no new storage can have the same address.
  void sweep() {
    ++removals;
    std::vector<std::unique_ptr<Withdrawable>> kept;
    indices.clear();
    for (auto& entry : entries) {
      if (!entry) continue;
      if (entry->storage.expired()) {
        by_address.erase(entry->span.begin);
        continue;
      }
      indices.insert(entry->storage._unsafe_get_target(), static_cast<int32_t>(kept.size()));
      kept.push_back(std::move(entry));
    }
    entries = std::move(kept);
    sweep_at = std::max(kMinEntriesToSweep, 2 * entries.size());
  }
};

}  // namespace

Withdrawable* find_withdrawable(c10::StorageImpl* storage, CachedPointer& last) {
  WithdrawnTable& table = WithdrawnTable::get();
  // The storage is alive, so its entry is removed only if the storage was resized.
  bool known = last.storage == storage && last.removals == table.removals.load() && last.pointer->span.bytes == storage->nbytes();
  if (known) return last.pointer;
  std::lock_guard lock(table.mutex);
  last = {storage, table.find_or_add(storage), table.removals.load()};
  if (!last.pointer) last.storage = nullptr;
  return last.pointer;
}

bool may_withdraw(Withdrawable& pointer) {
  if (pointer.withdrawn.load(std::memory_order_relaxed)) return false;
  uint32_t left = pointer.undeferred_writes.load(std::memory_order_relaxed);
  while (left > 0 && !pointer.undeferred_writes.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
  }
  return left == 0;
}

bool withdraw(Withdrawable& pointer) {
  NoForkScope scope;  // Before the spin lock, as arm() enters one too.
  SpinGuard busy(pointer.busy);
  if (pointer.withdrawn || pointer.undeferred_writes > 0) return false;
  pointer.remove_copy();
  pointer.withdrawn = true;
  pointer.thread = this_thread();
  c10::StorageImpl* storage = pointer.storage._unsafe_get_target();
  c10::DataPtr& shown = storage->_mutable_data_ptr_no_checks();
  pointer.memory = std::move(shown);
  shown = c10::DataPtr(pointer.span.begin, c10::kCPU);
  // Another thread may have consumed the hook since the replay set it.
  if (!storage->has_materializer()) bridge::arm(storage);
  return true;
}

void restore(c10::ArrayRef<Withdrawable*> pointers) {
  for (Withdrawable* pointer : pointers) {
    SpinGuard busy(pointer->busy);
    pointer->storage._unsafe_get_target()->_mutable_data_ptr_no_checks() = std::move(pointer->memory);
    pointer->withdrawn = false;
    pointer->remove_copy();  // The copy is older than the contents.
  }
}

const void* withdrawn_memory(const Withdrawable& pointer) { return pointer.memory.get(); }

const void* memory_of(const c10::StorageImpl* storage) {
  const void* shown = storage->data();
  if (!is_reserved(shown)) return shown;
  WithdrawnTable& table = WithdrawnTable::get();
  std::lock_guard lock(table.mutex);
  Withdrawable* entry = table.find(storage);
  if (!entry) return storage->data();
  SpinGuard busy(entry->busy);
  return entry->withdrawn ? entry->memory.get() : storage->data();
}

void note_use_by_other_thread(c10::StorageImpl* storage) {
  WithdrawnTable& table = WithdrawnTable::get();
  std::lock_guard lock(table.mutex);
  Withdrawable* entry = table.find(storage);
  if (!entry) return;
  SpinGuard busy(entry->busy);
  entry->undeferred_writes = entry->next_undeferred_writes;
  entry->next_undeferred_writes = std::min(2 * entry->next_undeferred_writes, kMaxUndeferredWrites);
}

void retire_copy(c10::StorageImpl* storage) {
  if (g_mapped_copies.load(std::memory_order_relaxed) == 0) return;
  WithdrawnTable& table = WithdrawnTable::get();
  std::lock_guard lock(table.mutex);
  Withdrawable* entry = table.find(storage);
  if (!entry) return;
  SpinGuard busy(entry->busy);
  entry->remove_copy();
}

void lock_withdrawn() { WithdrawnTable::get().mutex.lock(); }
void unlock_withdrawn() { WithdrawnTable::get().mutex.unlock(); }

bool serve_withdrawn(const Fault& fault) {
  WithdrawnTable& table = WithdrawnTable::get();
  c10::intrusive_ptr<c10::StorageImpl> storage;
  {
    std::lock_guard lock(table.mutex);
    Withdrawable* entry = table.find(fault.address);
    if (!entry || (fault.is_write && entry->thread == fault.thread)) return false;
    storage = entry->storage.lock();
  }
  if (!storage) return false;
  announce_access_by(fault.thread, storage.get(), AccessKind::read);
  std::lock_guard lock(table.mutex);
  Withdrawable* entry = table.find(fault.address);
  if (!entry || entry->storage._unsafe_get_target() != storage.get()) return false;
  SpinGuard busy(entry->busy);
  if (entry->copy_mapped && !fault.is_write) return true;  // Another thread's read was served meanwhile.
  // A program without locks may have withdrawn it again; the reader then gets the previous contents.
  const void* memory = entry->withdrawn ? entry->memory.get() : storage->data();
  entry->map_contents(memory, fault.is_write);
  return entry->copy_mapped;
}

}  // namespace tenon::capture
