#include "capture/withdrawn.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/pointer_map.h"
#include "bridge/access.h"
#include "capture/address_space.h"
#include "capture/pending.h"

namespace tenon::capture {
namespace {

// How many writes run at once after another thread has used a storage, the first time and at most.
constexpr uint32_t kFirstWritesAtOnce = 64, kMaxWritesAtOnce = 1 << 14;

}  // namespace

// How many copies are shown in the process.
std::atomic<int64_t> g_shown{0};

// Held for a moment by the thread that withdraws, restores or shows. A mutex would cost a training step more.
class Busy {
 public:
  explicit Busy(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~Busy() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag& flag_;
};

class Withdrawable {
 public:
  std::atomic_flag busy;  // over the rest
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  AddressSpan span;
  c10::DataPtr memory;  // while the pointer is withdrawn
  std::atomic<bool> withdrawn{false};
  pid_t thread = 0;    // that withdrew it last
  bool shown = false;  // a copy is mapped at the span
  std::atomic<uint32_t> at_once{0};
  uint32_t next_at_once = kFirstWritesAtOnce;

  Withdrawable(c10::StorageImpl* impl, AddressSpan addresses)
      : storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl)), span(addresses) {}
  ~Withdrawable() {
    take_copy_away();
    release_addresses(span);
  }

  void show(const void* contents, bool writable) {
    int before = shown;
    shown = map_copy(span, contents, writable);
    g_shown += static_cast<int>(shown) - before;
  }
  void take_copy_away() {
    if (!shown) return;
    unmap_copy(span);
    shown = false;
    --g_shown;
  }
};

namespace {

struct Table {
  std::mutex mutex;
  PointerMap numbers;                                  // of a storage in `entries`
  std::vector<std::unique_ptr<Withdrawable>> entries;  // null where one is gone
  std::map<const char*, Withdrawable*> by_address;
  size_t sweep_at = 64;
  std::atomic<uint64_t> removals{0};

  static Table& get() {
    static Table* table = new Table;
    return *table;
  }

  Withdrawable* find(const c10::StorageImpl* storage) {
    int32_t number = numbers.find(storage);
    return number < 0 ? nullptr : entries[number].get();
  }

  Withdrawable* find(const char* address) {
    auto it = by_address.upper_bound(address);
    if (it == by_address.begin()) return nullptr;
    Withdrawable* entry = std::prev(it)->second;
    return entry->span.contains(address) ? entry : nullptr;
  }

  // Null if no addresses are left.
  Withdrawable* find_or_add(c10::StorageImpl* storage) {
    Withdrawable* known = find(storage);
    if (known && known->span.bytes == storage->nbytes()) return known;
    if (known && known->withdrawn) return nullptr;
    if (known) erase(known);  // it was resized
    if (entries.size() >= sweep_at) sweep();
    AddressSpan span = reserve_addresses(storage->nbytes());
    if (!span) {
      sweep();
      span = reserve_addresses(storage->nbytes());
    }
    if (!span) return nullptr;
    numbers.insert(storage, static_cast<int32_t>(entries.size()));
    entries.push_back(std::make_unique<Withdrawable>(storage, span));
    by_address.emplace(span.begin, entries.back().get());
    return entries.back().get();
  }

  // Whoever remembers an entry asks for `removals` first, so it is raised before anything is gone.
  void erase(Withdrawable* entry) {
    ++removals;
    const c10::StorageImpl* storage = entry->storage._unsafe_get_target();
    int32_t number = numbers.find(storage);
    numbers.erase(storage);
    by_address.erase(entry->span.begin);
    entries[number].reset();
  }

  // Leaves out storages that are gone. An entry holds its storage weakly, so no new one has the same address.
  void sweep() {
    ++removals;
    std::vector<std::unique_ptr<Withdrawable>> kept;
    numbers.clear();
    for (auto& entry : entries) {
      if (!entry) continue;
      if (entry->storage.expired()) {
        by_address.erase(entry->span.begin);
        continue;
      }
      numbers.insert(entry->storage._unsafe_get_target(), static_cast<int32_t>(kept.size()));
      kept.push_back(std::move(entry));
    }
    entries = std::move(kept);
    sweep_at = std::max<size_t>(64, 2 * entries.size());
  }
};

}  // namespace

Withdrawable* find_withdrawable(c10::StorageImpl* storage, FoundPointer& last) {
  Table& table = Table::get();
  // The storage is alive, so its entry is removed only if it was resized.
  bool known = last.storage == storage && last.removals == table.removals.load() && last.pointer->span.bytes == storage->nbytes();
  if (known) return last.pointer;
  std::lock_guard lock(table.mutex);
  last = {storage, table.find_or_add(storage), table.removals.load()};
  if (!last.pointer) last.storage = nullptr;
  return last.pointer;
}

bool may_withdraw(Withdrawable& pointer) {
  if (pointer.withdrawn.load(std::memory_order_relaxed)) return false;
  uint32_t left = pointer.at_once.load(std::memory_order_relaxed);
  while (left > 0 && !pointer.at_once.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
  }
  return left == 0;
}

bool withdraw(Withdrawable& pointer) {
  Busy busy(pointer.busy);
  if (pointer.withdrawn || pointer.at_once > 0) return false;
  pointer.take_copy_away();
  pointer.withdrawn = true;
  pointer.thread = this_thread();
  c10::StorageImpl* storage = pointer.storage._unsafe_get_target();
  c10::DataPtr& shown = storage->_mutable_data_ptr_no_checks();
  pointer.memory = std::move(shown);
  shown = c10::DataPtr(pointer.span.begin, c10::kCPU);
  // Another thread may have used up the hook since the replay set it.
  if (!storage->has_materializer()) bridge::arm(storage);
  return true;
}

void restore(c10::ArrayRef<Withdrawable*> pointers) {
  for (Withdrawable* pointer : pointers) {
    Busy busy(pointer->busy);
    pointer->storage._unsafe_get_target()->_mutable_data_ptr_no_checks() = std::move(pointer->memory);
    pointer->withdrawn = false;
    pointer->take_copy_away();  // what it shows is older than this
  }
}

const void* withdrawn_memory(const Withdrawable& pointer) { return pointer.memory.get(); }

const void* memory_of(const c10::StorageImpl* storage) {
  const void* shown = storage->data();
  if (!is_reserved(shown)) return shown;
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  Withdrawable* entry = table.find(storage);
  if (!entry) return storage->data();
  Busy busy(entry->busy);
  return entry->withdrawn ? entry->memory.get() : storage->data();
}

void note_use_by_other_thread(c10::StorageImpl* storage) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  Withdrawable* entry = table.find(storage);
  if (!entry) return;
  Busy busy(entry->busy);
  entry->at_once = entry->next_at_once;
  entry->next_at_once = std::min(2 * entry->next_at_once, kMaxWritesAtOnce);
}

void retire_copy(c10::StorageImpl* storage) {
  if (g_shown.load(std::memory_order_relaxed) == 0) return;
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  Withdrawable* entry = table.find(storage);
  if (!entry) return;
  Busy busy(entry->busy);
  entry->take_copy_away();
}

void lock_withdrawn() { Table::get().mutex.lock(); }
void unlock_withdrawn() { Table::get().mutex.unlock(); }

bool serve_withdrawn(const Fault& fault) {
  Table& table = Table::get();
  c10::intrusive_ptr<c10::StorageImpl> storage;
  {
    std::lock_guard lock(table.mutex);
    Withdrawable* entry = table.find(fault.address);
    if (!entry || (fault.is_write && entry->thread == fault.thread)) return false;
    storage = entry->storage.lock();
  }
  if (!storage) return false;
  announce_access_by(fault.thread, storage.get(), Access::read);
  std::lock_guard lock(table.mutex);
  Withdrawable* entry = table.find(fault.address);
  if (!entry || entry->storage._unsafe_get_target() != storage.get()) return false;
  Busy busy(entry->busy);
  if (entry->shown && !fault.is_write) return true;  // another thread that read there was served meanwhile
  // Withdrawn again already, by a program that does not lock: the contents are what they were before.
  const void* memory = entry->withdrawn ? entry->memory.get() : storage->data();
  entry->show(memory, fault.is_write);
  return entry->shown;
}

}  // namespace tenon::capture
