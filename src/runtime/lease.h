// A block of memory for one run. Blocks are cached, since new memory costs a page fault every 4 KiB.
#pragma once

#include <cstddef>

namespace tenon::runtime {

class BlockLease {
 public:
  explicit BlockLease(size_t bytes);
  ~BlockLease();
  BlockLease(const BlockLease&) = delete;
  BlockLease& operator=(const BlockLease&) = delete;

  char* begin() const { return begin_; }

 private:
  char* begin_ = nullptr;
  size_t bytes_ = 0;
};

// Returns all cached blocks that are not leased to the system.
void free_unleased();

}  // namespace tenon::runtime
