#include "capture/storage_table.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>

#include "bridge/access.h"
#include "capture/faults.h"
#include "capture/tensors.h"

namespace tenon::capture {

// ---- early accesses ----

void EarlyAccesses::add(const c10::StorageImpl* storage, AccessKind access) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  accesses_.emplace_back(storage, access);
  any_.store(true, std::memory_order_release);
}

void EarlyAccesses::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

bool EarlyAccesses::contains(const c10::StorageImpl* storage, AccessKind access) const {
  if (!any_.load(std::memory_order_acquire)) return false;
  std::lock_guard lock(mutex_);
  return std::find(accesses_.begin(), accesses_.end(), std::pair(storage, access)) != accesses_.end();
}

// ---- binding ----

void StorageTable::Buffers::clear() {
  storages.clear();
  ids.clear();
  for (auto* list : {&used, &pending, &newly_bound}) list->clear();
  ranges.clear();
}

bool StorageTable::bind(int32_t id, const c10::TensorImpl* tensor, int64_t shift) {
  c10::StorageImpl* impl = storage_of(tensor);
  if (!buffers_.ids.insert(impl, id)) return false;
  CallStorage& storage = (*this)[id];
  storage.impl = impl;
  storage.weak = tensor->unsafe_storage().getWeakStorageImpl();
  storage.shift = shift;
  seen_.add(impl);
  storage.mutable_pointer_given |= early_accesses_.contains(impl, AccessKind::write);
  storage.const_pointer_given |= early_accesses_.contains(impl, AccessKind::read);
  if (compares_ranges_) {
    add_range(id);
  } else if (is_foreign(impl)) {
    compares_ranges_ = true;
    for (size_t i = 0; i < size(); ++i)
      if (buffers_.storages[i].impl && !buffers_.storages[i].pending) add_range(static_cast<int32_t>(i));
  }
  return true;
}

void StorageTable::bind_placeholder(int32_t id, const c10::Storage& placeholder, AddressSpan span) {
  CallStorage& storage = (*this)[id];
  storage.span = span;
  storage.impl = placeholder.unsafeGetStorageImpl();
  storage.weak = placeholder.getWeakStorageImpl();
  storage.pending = storage.armed = true;
  seen_.add(storage.impl);
  buffers_.ids.insert(storage.impl, id);
  buffers_.pending.push_back(id);
}

bool StorageTable::bind_in_match(int32_t id, const c10::TensorImpl* tensor, int64_t shift) {
  if (!bind(id, tensor, shift)) return false;
  buffers_.newly_bound.push_back(id);
  return true;
}

void StorageTable::undo_match() {
  for (int32_t id : buffers_.newly_bound) {
    buffers_.ids.erase((*this)[id].impl);
    (*this)[id] = CallStorage{};
  }
  buffers_.newly_bound.clear();
}

// ---- address ranges ----

// Ops that write memory that several storages cover are never deferred, so that they run in the program's order.
void StorageTable::add_range(int32_t id) {
  CallStorage& storage = (*this)[id];
  if (storage.weak.expired()) return;
  const void* memory = memory_of(storage.impl);
  if (std::exchange(storage.compared_address, memory) == memory) return;
  buffers_.ranges.add(memory, storage.impl->nbytes(), id, [&](int32_t other_id) {
    CallStorage& other = (*this)[other_id];
    if (other_id == id || !other.impl || other.weak.expired()) return;
    storage.overlaps = other.overlaps = true;
    needs_flush_ |= storage.used_by_deferred || other.used_by_deferred;
  });
}

bool StorageTable::overlaps_used(const c10::StorageImpl* storage) const {
  if (!compares_ranges_ && !is_foreign(storage)) return false;
  const char* begin = static_cast<const char*>(memory_of(storage));
  for (int32_t id : buffers_.used) {
    const CallStorage& other = (*this)[id];
    if (other.pending) continue;
    const char* memory = static_cast<const char*>(memory_of(other.impl));
    if (memory < begin + storage->nbytes() && begin < memory + other.impl->nbytes()) return true;
  }
  return false;
}

// ---- memory of deferred ops ----

bool StorageTable::owns_memory(const CallStorage& storage) {
  // The check was made before the pointer was withdrawn.
  return storage.is_withdrawn || storage.impl->nbytes() == 0 || storage.impl->_mutable_data_ptr_no_checks().get_context() != nullptr;
}

void StorageTable::arm(CallStorage& storage) { storage.armed = !is_reserved(storage.impl->data()) && bridge::arm(storage.impl); }

void StorageTable::hold(int32_t id) {
  CallStorage& storage = (*this)[id];
  if (storage.used_by_deferred) return;
  storage.used_by_deferred = true;
  buffers_.used.push_back(id);
  if (storage.pending) return;
  storage.held = static_cast<int32_t>(held_.size());
  HeldMemory& held = held_.emplace_back();
  held.storage = c10::Storage(storage.weak.lock());
  if (!storage.mutable_pointer_given && owns_memory(storage)) return;
  held.snapshot = c10::GetCPUAllocator()->allocate(storage.impl->nbytes());
  std::memcpy(held.snapshot.get(), memory_of(storage.impl), storage.impl->nbytes());
}

void StorageTable::find_pointer(CallStorage& storage) {
  size_t id = static_cast<size_t>(&storage - buffers_.storages.data());
  if (buffers_.pointers.size() <= id) buffers_.pointers.resize(size());
  storage.pointer = find_withdrawable(storage.impl, buffers_.pointers[id]);
}

void StorageTable::withdraw_pointer(int32_t id) {
  CallStorage& storage = (*this)[id];
  storage.written_by_deferred = true;
  if (storage.pending || storage.is_withdrawn) return;
  if (!handler_checked_) keep_fault_handler();
  handler_checked_ = true;
  if (!storage.pointer) find_pointer(storage);
  storage.is_withdrawn = storage.pointer && withdraw(*storage.pointer);
  needs_flush_ |= !storage.is_withdrawn;
}

std::pair<const void*, c10::StorageImpl*> StorageTable::memory(const CallStorage& storage) const {
  const HeldMemory& held = held_[storage.held];
  if (held.snapshot) return {held.snapshot.get(), nullptr};
  return {storage.is_withdrawn ? withdrawn_memory(*storage.pointer) : memory_of(storage.impl), storage.impl};
}

c10::Storage StorageTable::take_unused(int32_t id) {
  CallStorage& storage = (*this)[id];
  HeldMemory& held = held_[storage.held];
  bool is_written = storage.is_withdrawn || storage.written_by_deferred;
  if (held.snapshot || is_written || compares_ranges_ || storage.shift != 0 || held.storage.use_count() != 1) return {};
  bridge::disarm(storage.impl);
  storage.armed = false;
  return std::move(held.storage);
}

bool StorageTable::has_changed(const CallStorage& storage) const {
  return storage.used_by_deferred && storage.held >= 0 && held_[storage.held].snapshot &&
         std::memcmp(held_[storage.held].snapshot.get(), memory_of(storage.impl), storage.impl->nbytes()) != 0;
}

void StorageTable::release_used() {
  c10::SmallVector<Withdrawable*, 32> withdrawn;
  for (int32_t id : buffers_.used) {
    CallStorage& storage = (*this)[id];
    if (storage.is_withdrawn) withdrawn.push_back(storage.pointer);
    // No mark exists for pending contents.
    if (storage.written_by_deferred && storage.impl && !storage.pending) bridge::invalidate_marks(storage.impl);
    storage.is_withdrawn = storage.used_by_deferred = storage.written_by_deferred = false;
    storage.held = -1;
  }
  if (!withdrawn.empty()) restore(withdrawn);
  for (int32_t id : buffers_.pending) (*this)[id].pending = false;
  buffers_.pending.clear();
  held_.clear();
  buffers_.used.clear();
}

}  // namespace tenon::capture
