// Memory for the length of one run, from blocks that are kept: a fresh block would cost a page fault
// every 4 KiB.
#pragma once

#include <cstddef>

namespace tenon::runtime {

class Lease {
 public:
  explicit Lease(size_t bytes);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  char* begin() const { return begin_; }

 private:
  char* begin_ = nullptr;
  size_t bytes_ = 0;
};

// Blocks that nobody has leased go back to the system.
void free_unleased();

}  // namespace tenon::runtime
