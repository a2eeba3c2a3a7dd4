// A set of storages that may also say yes for others, never no for its own. Any thread may ask without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace tenon::capture {

class StorageFilter {
 public:
  // By one thread at a time: nothing is lost between load and store.
  void add(const void* storage) {
    auto [word, bit] = place_of(storage);
    words_[word].store(words_[word].load(std::memory_order_relaxed) | bit, std::memory_order_release);
  }
  bool may_contain(const void* storage) const {
    auto [word, bit] = place_of(storage);
    return words_[word].load(std::memory_order_acquire) & bit;
  }

 private:
  struct Place {
    size_t word;
    uint64_t bit;
  };
  static Place place_of(const void* storage) {
    uint64_t hash = (reinterpret_cast<uintptr_t>(storage) >> 4) * 0x9E3779B97F4A7C15ull >> 54;
    return {hash / 64, uint64_t{1} << hash % 64};
  }

  std::array<std::atomic<uint64_t>, 16> words_{};
};

}  // namespace tenon::capture
