// Memory by address. Two storages can lie over the same memory: `from_blob` gives each tensor a storage of its
// own. So what a write changes is found by address range, not by storage.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <vector>

namespace tenon::capture {

// Memory that no allocator of libtorch's gave out; only such memory can lie under several storages.
inline bool is_foreign(const c10::StorageImpl* storage) {
  return storage && const_cast<c10::StorageImpl*>(storage)->allocator() == nullptr;
}

// Ranges of addresses in use, each with a number.
class MemoryRanges {
 public:
  // Calls `on_overlap` with the number of each range that shares bytes with this one, then adds it.
  template <class F>
  void add(const void* begin, size_t bytes, int32_t number, F&& on_overlap) {
    auto first = reinterpret_cast<uintptr_t>(begin);
    if (bytes == 0) return;
    for (const Range& other : ranges_)
      if (other.begin < first + bytes && first < other.end) on_overlap(other.number);
    ranges_.push_back({first, first + bytes, number});
  }
  void clear() { ranges_.clear(); }

 private:
  struct Range {
    uintptr_t begin, end;
    int32_t number;
  };
  std::vector<Range> ranges_;
};

}  // namespace tenon::capture
