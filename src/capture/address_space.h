// Addresses without memory. Storages whose contents are not computed yet point into one address range of
// the process that nobody may access. An access faults, and capture/faults.h finds out what was meant.
#pragma once

#include <cstddef>
#include <vector>

namespace tenon::capture {

// A part of the reserved range.
struct AddressSpan {
  char* begin = nullptr;
  size_t bytes = 0;

  explicit operator bool() const { return begin != nullptr; }
  bool contains(const void* address) const { return address >= begin && address < begin + bytes; }
};

// False where the system gives no address space (a tight RLIMIT_AS): then no op can wait.
bool addresses_are_available();
bool is_reserved(const void* address);

// A span that nobody else has until it is released. Empty if there is none left. Thread-safe.
AddressSpan reserve_addresses(size_t bytes);
void release_addresses(AddressSpan span);

// Makes a copy of the contents readable at the span, at once for all threads. False if there is no memory for it.
// What is written to a writable copy is lost.
bool map_copy(AddressSpan span, const void* contents, bool writable = false);
// Takes the memory away again.
void unmap_copy(AddressSpan span);

// Around a fork: no other thread is inside meanwhile.
void lock_addresses();
void unlock_addresses();

// Spans for the results of one call, which all end together.
class AddressArena {
 public:
  AddressArena() = default;
  AddressArena(AddressArena&& other) noexcept;
  AddressArena& operator=(AddressArena&& other) noexcept;
  ~AddressArena();

  // Empty if no addresses are left.
  AddressSpan take(size_t bytes);
  void reset();

 private:
  std::vector<AddressSpan> chunks_;
  size_t chunk_ = 0, used_ = 0;
};

}  // namespace tenon::capture
