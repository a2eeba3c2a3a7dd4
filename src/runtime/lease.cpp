#include "runtime/lease.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "base/flags.h"
#include "base/process.h"

namespace tenon::runtime {
namespace {

struct Blocks {
  std::mutex mutex;
  std::multimap<size_t, char*> free;  // The key is the size.
};

Blocks& blocks() {
  static Blocks* all = new Blocks;
  return *all;
}
// Created when the library is loaded, because a fork in the middle of its creation would leave it locked in the child.
[[maybe_unused]] const Blocks& g_blocks = blocks();

char* map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<char*>(memory);
}

}  // namespace

// The largest free block is unmapped if all are too small, so that no more blocks are kept than runs are concurrent.
BlockLease::BlockLease(size_t bytes) {
  if (bytes == 0) return;
  {
    Blocks& all = blocks();
    ForkSafeLock lock(all.mutex);
    auto it = all.free.lower_bound(bytes);
    if (it == all.free.end() && !all.free.empty()) {
      auto largest = std::prev(it);
      munmap(largest->second, largest->first);
      all.free.erase(largest);
      it = all.free.end();
    }
    if (it != all.free.end()) {
      bytes_ = it->first;
      begin_ = it->second;
      all.free.erase(it);
    }
  }
  if (!begin_) {
    bytes_ = bytes;
    begin_ = map(bytes);
  }
  // Tests fill the block with NaN, so that a read of uninitialized memory is noticed.
  static const bool poison = is_set(Flag::check_kernels);
  if (poison) std::memset(begin_, 0xff, bytes);
}

BlockLease::~BlockLease() {
  if (!begin_) return;
  Blocks& all = blocks();
  ForkSafeLock lock(all.mutex);
  all.free.emplace(bytes_, begin_);
}

void free_unleased() {
  Blocks& all = blocks();
  ForkSafeLock lock(all.mutex);
  for (auto [bytes, begin] : all.free) munmap(begin, bytes);
  all.free.clear();
}

}  // namespace tenon::runtime
