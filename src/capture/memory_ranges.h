// Memory by address. Two storages can cover the same memory, because `from_blob` gives each tensor a storage of its own.
// The tensors that a write changes are therefore found by address range, not by storage.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <vector>

namespace tenon::capture {

// Returns whether libtorch's allocators did not allocate the memory. Only such memory can be covered by several storages.
inline bool is_foreign(const c10::StorageImpl* storage) {
  return storage && const_cast<c10::StorageImpl*>(storage)->allocator() == nullptr;
}

// A set of address ranges, each with an id.
class MemoryRanges {
 public:
  // Adds a range, after calling `on_overlap` with the id of each range that overlaps it.
  template <class F>
  void add(const void* begin, size_t bytes, int32_t id, F&& on_overlap) {
    auto first = reinterpret_cast<uintptr_t>(begin);
    if (bytes == 0) return;
    for (const AddressRange& other : ranges_)
      if (other.begin < first + bytes && first < other.end) on_overlap(other.id);
    ranges_.push_back({first, first + bytes, id});
  }
  void clear() { ranges_.clear(); }

 private:
  struct AddressRange {
    uintptr_t begin, end;
    int32_t id;
  };
  std::vector<AddressRange> ranges_;
};

}  // namespace tenon::capture
