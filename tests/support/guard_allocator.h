// Allocates every tensor between inaccessible pages, alternately adjacent to the page after it and to the page before it, and
// fills it with NaN. An access out of bounds crashes, and reading uninitialized elements changes results.
#pragma once

#include <c10/core/Allocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

namespace tenon::test {

class GuardAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::kCPU};
    size_t page = static_cast<size_t>(getpagesize()), inside = (bytes + page - 1) / page * page;
    void* memory = mmap(nullptr, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    char* first = static_cast<char*>(memory) + page;
    if (mprotect(first, inside, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    std::memset(first, 0xff, inside);
    std::lock_guard lock(blocks().mutex);
    bool at_the_end = blocks().count++ % 2 == 0;
    char* begin = first + (at_the_end ? inside - bytes : 0);
    blocks().by_address[begin] = {memory, inside + 2 * page};
    return {begin, begin, &free, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  struct Blocks {
    std::mutex mutex;
    std::unordered_map<void*, std::pair<void*, size_t>> by_address;
    size_t count = 0;
  };
  static Blocks& blocks() {
    static Blocks* all = new Blocks;
    return *all;
  }
  static void free(void* begin) {
    std::lock_guard lock(blocks().mutex);
    auto it = blocks().by_address.find(begin);
    if (it == blocks().by_address.end()) return;
    munmap(it->second.first, it->second.second);
    blocks().by_address.erase(it);
  }
};

}  // namespace tenon::test
