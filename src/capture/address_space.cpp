#include "capture/address_space.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace tenon::capture {
namespace {

constexpr size_t kPageBytes = 4096;
// An eighth of the 47-bit address space of a process, and the least that is useful. Not measured.
constexpr size_t kMaxReservationBytes = size_t{1} << 44, kMinReservationBytes = size_t{1} << 24;
// The reservation takes at most one sixteenth of RLIMIT_AS, so that the program keeps nearly all of its limit.
constexpr size_t kLimitDivisor = 16;
// The addresses that are taken from the reservation at a time. Not measured.
constexpr size_t kMaxChunkBytes = size_t{1} << 30, kMinChunkBytes = size_t{1} << 18;
constexpr size_t kChunksInReservation = 1024;

size_t whole_pages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

// The process-wide reservation. It is never released, because the program may hold reserved addresses until the process ends.
class Reservation {
 public:
  static Reservation& get() {
    static Reservation* reservation = new Reservation;
    return *reservation;
  }

  bool exists() const { return begin_ != nullptr; }
  bool contains(const void* address) const { return address >= begin_ && address < begin_ + size_; }
  std::mutex& mutex() { return mutex_; }
  size_t chunk() const { return std::clamp(size_ / kChunksInReservation, kMinChunkBytes, kMaxChunkBytes); }

  AddressSpan take(size_t bytes) {
    std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      auto [begin, size] = *it;
      if (size < bytes) continue;
      free_.erase(it);
      if (size > bytes) free_.emplace(begin + bytes, size - bytes);
      return {begin, bytes};
    }
    return {};
  }

  void release(char* begin, size_t bytes) {
    std::lock_guard lock(mutex_);
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && begin + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == begin) {
        before->second += bytes;
        return;
      }
    }
    free_.emplace(begin, bytes);
  }

 private:
  Reservation() {
    rlimit limit{};
    size_t max_size = kMaxReservationBytes;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      max_size = std::min<size_t>(max_size, limit.rlim_cur / kLimitDivisor / kPageBytes * kPageBytes);
    for (size_t size = max_size; size >= kMinReservationBytes && !begin_; size = size / 4 / kPageBytes * kPageBytes) {
      void* range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (range == MAP_FAILED) continue;
      begin_ = static_cast<char*>(range);
      size_ = size;
      free_.emplace(begin_, size_);
    }
  }

  char* begin_ = nullptr;
  size_t size_ = 0;
  std::mutex mutex_;
  std::map<char*, size_t> free_;  // Free ranges by address; adjacent ranges are merged.
};

// An unmapped guard page behind each span catches reads past its end.
size_t with_guard(size_t bytes) { return whole_pages(bytes) + kPageBytes; }

}  // namespace

bool addresses_are_available() { return Reservation::get().exists(); }

bool is_reserved(const void* address) {
  static const Reservation& reservation = Reservation::get();
  return reservation.contains(address);
}

void lock_addresses() { Reservation::get().mutex().lock(); }
void unlock_addresses() { Reservation::get().mutex().unlock(); }

AddressSpan reserve_addresses(size_t bytes) {
  AddressSpan span = Reservation::get().take(with_guard(bytes));
  return span ? AddressSpan{span.begin, bytes} : span;
}

void release_addresses(AddressSpan span) {
  if (span) Reservation::get().release(span.begin, with_guard(span.bytes));
}

bool map_copy(AddressSpan span, const void* contents, bool writable) {
  size_t size = whole_pages(std::max<size_t>(span.bytes, 1));
  void* copy = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return false;
  std::memcpy(copy, contents, span.bytes);
  if (!writable) mprotect(copy, size, PROT_READ);
  // mremap moves all pages in one step: a reader sees the whole copy or faults.
  return mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, span.begin) != MAP_FAILED;
}

void unmap_copy(AddressSpan span) {
  // A new mapping also frees the old pages.
  mmap(span.begin, whole_pages(std::max<size_t>(span.bytes, 1)), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

AddressArena::AddressArena(AddressArena&& other) noexcept { *this = std::move(other); }

AddressArena& AddressArena::operator=(AddressArena&& other) noexcept {
  std::swap(chunks_, other.chunks_);
  std::swap(chunk_, other.chunk_);
  std::swap(used_, other.used_);
  return *this;
}

AddressArena::~AddressArena() {
  for (AddressSpan chunk : chunks_) Reservation::get().release(chunk.begin, chunk.bytes);
}

AddressSpan AddressArena::take(size_t bytes) {
  size_t size = with_guard(bytes);
  while (chunk_ < chunks_.size() && used_ + size > chunks_[chunk_].bytes) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    AddressSpan chunk = Reservation::get().take(std::max(size, Reservation::get().chunk()));
    if (!chunk) return {};
    chunks_.push_back(chunk);
    used_ = 0;
  }
  char* begin = chunks_[chunk_].begin + used_;
  used_ += size;
  return {begin, bytes};
}

void AddressArena::reset() {
  // The first chunk is kept for the next call.
  for (size_t i = 1; i < chunks_.size(); ++i) Reservation::get().release(chunks_[i].begin, chunks_[i].bytes);
  if (chunks_.size() > 1) chunks_.resize(1);
  chunk_ = used_ = 0;
}

}  // namespace tenon::capture
