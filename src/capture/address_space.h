// Reserved addresses. Storages whose contents are not computed yet point into one address range of the process that has
// no access rights. An access there is a page fault, which capture/faults.h serves.
#pragma once

#include <cstddef>
#include <vector>

namespace tenon::capture {

// A sub-range of the reserved addresses.
struct AddressSpan {
  char* begin = nullptr;
  size_t bytes = 0;

  explicit operator bool() const { return begin != nullptr; }
  bool contains(const void* address) const { return address >= begin && address < begin + bytes; }
};

// Returns false if the system grants no address space (a tight RLIMIT_AS). No op can be deferred then.
bool addresses_are_available();
bool is_reserved(const void* address);

// Returns a span for the caller's exclusive use until it is released, or an empty one if no addresses are left. Thread-safe.
AddressSpan reserve_addresses(size_t bytes);
void release_addresses(AddressSpan span);

// Maps a copy of the contents at the span, atomically for all threads. Returns false if there is no memory for it.
// Writes to a writable copy are lost.
bool map_copy(AddressSpan span, const void* contents, bool writable = false);
// Unmaps the copy and releases its pages.
void unmap_copy(AddressSpan span);

// The allocator's lock, which is held during a fork so that the child finds it unlocked.
void lock_addresses();
void unlock_addresses();

// Allocates spans for the results of one call. All of them are released together.
class AddressArena {
 public:
  AddressArena() = default;
  AddressArena(AddressArena&& other) noexcept;
  AddressArena& operator=(AddressArena&& other) noexcept;
  ~AddressArena();

  // Returns an empty span if no addresses are left.
  AddressSpan take(size_t bytes);
  void reset();

 private:
  std::vector<AddressSpan> chunks_;
  size_t chunk_ = 0, used_ = 0;
};

}  // namespace tenon::capture
