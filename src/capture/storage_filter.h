// A Bloom filter of storages: no false negatives, rare false positives. Any thread may query it without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace tenon::capture {

class StorageFilter {
 public:
  // Must be called by one thread at a time: load and store are not one atomic operation.
  void add(const void* storage) {
    auto [word, bit] = position_of(storage);
    words_[word].store(words_[word].load(std::memory_order_relaxed) | bit, std::memory_order_release);
  }
  bool may_contain(const void* storage) const {
    auto [word, bit] = position_of(storage);
    return words_[word].load(std::memory_order_acquire) & bit;
  }

 private:
  struct BitPosition {
    size_t word;
    uint64_t bit;
  };
  static BitPosition position_of(const void* storage) {
    uint64_t hash = (reinterpret_cast<uintptr_t>(storage) >> 4) * 0x9E3779B97F4A7C15ull >> 54;
    return {hash / 64, uint64_t{1} << hash % 64};
  }

  std::array<std::atomic<uint64_t>, 16> words_{};
};

}  // namespace tenon::capture
