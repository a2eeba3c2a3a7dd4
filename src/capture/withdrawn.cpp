#include "capture/withdrawn.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "capture/address_space.h"
#include "capture/pending.h"

namespace tenon::capture {
namespace {

// How many writes run at once after another thread has used a storage, the first time and at most.
constexpr uint32_t kFirstWritesAtOnce = 64, kMaxWritesAtOnce = 1 << 14;

struct Entry {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  AddressSpan span;
  c10::DataPtr memory;  // while the pointer is withdrawn
  bool withdrawn = false;
  bool shown = false;  // a copy is mapped at the span
  uint32_t at_once = 0, next_at_once = kFirstWritesAtOnce;

  Entry(c10::StorageImpl* impl, AddressSpan addresses)
      : storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl)), span(addresses) {}
  ~Entry() {
    if (shown) unmap_copy(span);
    release_addresses(span);
  }
};

struct Table {
  std::mutex mutex;
  std::unordered_map<const c10::StorageImpl*, std::unique_ptr<Entry>> entries;
  std::map<const char*, Entry*> by_address;
  size_t sweep_at = 64;

  static Table& get() {
    static Table* table = new Table;
    return *table;
  }

  Entry* find(const c10::StorageImpl* storage) {
    auto it = entries.find(storage);
    return it == entries.end() ? nullptr : it->second.get();
  }

  Entry* find(const char* address) {
    auto it = by_address.upper_bound(address);
    if (it == by_address.begin()) return nullptr;
    Entry* entry = std::prev(it)->second;
    return entry->span.contains(address) ? entry : nullptr;
  }

  // Null if no addresses are left.
  Entry* find_or_add(c10::StorageImpl* storage) {
    if (Entry* known = find(storage)) {
      if (known->span.bytes == storage->nbytes()) return known;
      if (known->withdrawn) return nullptr;
      erase(entries.find(storage));  // it was resized
    }
    if (entries.size() >= sweep_at) sweep();
    AddressSpan span = reserve_addresses(storage->nbytes());
    if (!span) return nullptr;
    auto entry = std::make_unique<Entry>(storage, span);
    Entry* added = entry.get();
    by_address.emplace(span.begin, added);
    entries.emplace(storage, std::move(entry));
    return added;
  }

  // Storages that are gone. An entry holds its storage weakly, so no new one has the same address.
  void sweep() {
    for (auto it = entries.begin(); it != entries.end();) it = it->second->storage.expired() ? erase(it) : std::next(it);
    sweep_at = std::max<size_t>(64, 2 * entries.size());
  }

  decltype(entries)::iterator erase(decltype(entries)::iterator it) {
    by_address.erase(it->second->span.begin);
    return entries.erase(it);
  }
};

}  // namespace

bool may_withdraw(c10::StorageImpl* storage) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  Entry* entry = table.find_or_add(storage);
  if (!entry || entry->withdrawn) return false;
  if (entry->at_once == 0) return true;
  --entry->at_once;
  return false;
}

bool withdraw(c10::StorageImpl* storage) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  Entry* entry = table.find_or_add(storage);
  if (!entry || entry->withdrawn) return false;
  if (entry->shown) unmap_copy(entry->span);
  entry->shown = false;
  entry->withdrawn = true;
  c10::DataPtr& pointer = storage->_mutable_data_ptr_no_checks();
  entry->memory = std::move(pointer);
  pointer = c10::DataPtr(entry->span.begin, c10::kCPU);
  return true;
}

void restore(c10::StorageImpl* storage) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  Entry* entry = table.find(storage);
  storage->_mutable_data_ptr_no_checks() = std::move(entry->memory);
  entry->withdrawn = false;
  if (entry->shown) unmap_copy(entry->span);  // what it shows is older than this
  entry->shown = false;
}

const void* memory_of(const c10::StorageImpl* storage) {
  const void* shown = storage->data();
  if (!is_reserved(shown)) return shown;
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  Entry* entry = table.find(storage);
  return entry && entry->withdrawn ? entry->memory.get() : storage->data();
}

void note_use_by_other_thread(c10::StorageImpl* storage) {
  Table& table = Table::get();
  std::lock_guard lock(table.mutex);
  Entry* entry = table.find(storage);
  if (!entry) return;
  entry->at_once = entry->next_at_once;
  entry->next_at_once = std::min(2 * entry->next_at_once, kMaxWritesAtOnce);
}

bool serve_withdrawn_read(const char* address, pid_t thread) {
  Table& table = Table::get();
  c10::intrusive_ptr<c10::StorageImpl> storage;
  {
    std::lock_guard lock(table.mutex);
    Entry* entry = table.find(address);
    if (!entry) return false;
    storage = entry->storage.lock();
  }
  if (!storage) return false;
  announce_access_by(thread, storage.get(), Access::read);
  std::lock_guard lock(table.mutex);
  Entry* entry = table.find(address);
  if (!entry || entry->storage._unsafe_get_target() != storage.get()) return false;
  // Withdrawn again already, by a program that does not lock: the contents are what they were before.
  const void* memory = entry->withdrawn ? entry->memory.get() : storage->data();
  entry->shown = map_copy(entry->span, memory);
  return entry->shown;
}

}  // namespace tenon::capture
