// StorageTable: the storages of one replayed call, by storage id of the stream and by pointer, with their address ranges and
// the memory that deferred ops use. All members but `may_contain` and `add_early_access` need the replay's lock.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/pointer_map.h"
#include "capture/call_storage.h"
#include "capture/memory_ranges.h"
#include "capture/pending.h"
#include "capture/storage_filter.h"

namespace tenon::capture {

// Storages that the program requested a pointer to before an op used them. They have a lock of their own, because they are
// added where the replay's lock must not be taken.
class EarlyAccesses {
 public:
  void add(const c10::StorageImpl* storage, AccessKind access);
  // Ignores further accesses.
  void close();
  // Returns whether the program may hold a pointer of this kind.
  bool contains(const c10::StorageImpl* storage, AccessKind access) const;

 private:
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::vector<std::pair<const c10::StorageImpl*, AccessKind>> accesses_;
  std::atomic<bool> any_{false};  // Read without the lock: most calls have none.
};

class StorageTable {
 public:
  // Buffers that the next call on the same thread reuses.
  struct Buffers {
    std::vector<CallStorage> storages;
    PointerMap ids;
    std::vector<int32_t> used, pending, newly_bound;
    MemoryRanges ranges;
    std::vector<CachedPointer> pointers;  // Indexed by storage id; cached from the last call.

    // Keeps capacities and cached pointers.
    void clear();
  };

  explicit StorageTable(Buffers& buffers) : buffers_(buffers) {}

  void grow(size_t storages) {
    if (storages > buffers_.storages.size()) buffers_.storages.resize(storages);
  }
  // Reserves capacity for all storages in the map from pointers to ids.
  void reserve_ids() { buffers_.ids.reserve(buffers_.storages.size()); }

  CallStorage& operator[](int32_t id) { return buffers_.storages[id]; }
  const CallStorage& operator[](int32_t id) const { return buffers_.storages[id]; }
  std::vector<CallStorage>& all() { return buffers_.storages; }
  size_t size() const { return buffers_.storages.size(); }
  // The storage's id, or -1.
  int32_t find(const c10::StorageImpl* storage) const { return buffers_.ids.find(storage); }
  // Returns false if the call has certainly not used the storage. Any thread may ask without a lock.
  bool may_contain(const c10::StorageImpl* storage) const { return seen_.may_contain(storage); }

  // Assigns the id to the tensor's storage. Returns false if the storage has another id already.
  bool bind(int32_t id, const c10::TensorImpl* tensor, int64_t shift);
  // Assigns the id to a new placeholder.
  void bind_placeholder(int32_t id, const c10::Storage& storage, AddressSpan span);
  // Binding while an op is matched: if it does not match, the storages that were bound since `start_match` are unbound.
  void start_match() { buffers_.newly_bound.clear(); }
  bool bind_in_match(int32_t id, const c10::TensorImpl* tensor, int64_t shift);
  void undo_match();
  // The storages that the last op that matched has bound.
  const std::vector<int32_t>& newly_bound() const { return buffers_.newly_bound; }

  // The storages that deferred ops use, and those whose contents they still have to compute.
  const std::vector<int32_t>& used() const { return buffers_.used; }
  const std::vector<int32_t>& pending() const { return buffers_.pending; }
  // Marks a storage as used by deferred ops and keeps its memory alive.
  void hold(int32_t id);
  // Withdraws the pointer of a storage that a deferred op writes.
  void withdraw_pointer(int32_t id);
  // Caches the storage's Withdrawable in `pointer`.
  void find_pointer(CallStorage& storage);
  // The address that deferred ops read or write, and the storage that owns the memory, or null.
  std::pair<const void*, c10::StorageImpl*> memory(const CallStorage& storage) const;
  // Takes the storage if the deferred ops are the only ones that still use it; otherwise returns an empty one.
  c10::Storage take_unused(int32_t id);
  // Returns whether the memory that deferred ops must read has changed since they were deferred.
  bool has_changed(const CallStorage& storage) const;
  // Restores withdrawn pointers and releases the memory of the deferred ops, after these have run.
  void release_used();

  // Returns false for `from_blob` without a deleter, whose memory may be freed or changed unnoticed.
  static bool owns_memory(const CallStorage& storage);

  // Arms the storage, unless another replay still has to compute its contents.
  static void arm(CallStorage& storage);

  // Compares the storage's address range with all others, if foreign memory is in use.
  void compare_range(int32_t id) {
    if (compares_ranges_) add_range(id);
  }
  // Returns whether a storage that is new to this call overlaps memory that deferred ops use.
  bool overlaps_used(const c10::StorageImpl* storage) const;

  // Set when an op was deferred that must not be: two storages cover its memory, or a pointer could not be withdrawn.
  bool needs_flush() const { return needs_flush_; }
  bool take_needs_flush() { return std::exchange(needs_flush_, false); }

  // Records a pointer that the program requested before an op used the storage. Needs no lock.
  void add_early_access(const c10::StorageImpl* storage, AccessKind access) { early_accesses_.add(storage, access); }
  void ignore_early_accesses() { early_accesses_.close(); }

 private:
  void add_range(int32_t id);

  Buffers& buffers_;
  std::vector<HeldMemory> held_;
  bool compares_ranges_ = false;  // Foreign memory is in use, so address ranges are compared.
  bool needs_flush_ = false;
  bool handler_checked_ = false;  // The fault handler was checked in this call.
  StorageFilter seen_;
  EarlyAccesses early_accesses_;
};

}  // namespace tenon::capture
