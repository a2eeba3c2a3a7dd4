// An open-addressing hash map from pointers to non-negative indices, for hot paths where a node per key is too slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon {

class PointerMap {
 public:
  // The key's index, or -1.
  int32_t find(const void* key) const {
    if (buckets_.empty()) return -1;
    for (size_t i = home(key);; i = (i + 1) & (buckets_.size() - 1)) {
      if (buckets_[i].key == key) return buckets_[i].index;
      if (!buckets_[i].key) return -1;
    }
  }

  // Returns false if the key is present already.
  bool insert(const void* key, int32_t index) {
    if ((used_ + 1) * 2 > buckets_.size()) grow(buckets_.empty() ? 64 : buckets_.size() * 2);
    for (size_t i = home(key);; i = (i + 1) & (buckets_.size() - 1)) {
      if (buckets_[i].key == key) {
        if (buckets_[i].index >= 0) return false;
        buckets_[i].index = index;  // The key was erased before.
        return true;
      }
      if (buckets_[i].key) continue;
      buckets_[i] = {key, index};
      ++used_;
      return true;
    }
  }

  void erase(const void* key) {
    for (size_t i = home(key); buckets_[i].key; i = (i + 1) & (buckets_.size() - 1))
      if (buckets_[i].key == key) buckets_[i].index = -1;
  }

  // Reserves capacity for this number of keys.
  void reserve(size_t keys) {
    if (buckets_.empty()) buckets_.assign(64, Bucket{});
    size_t count = buckets_.size();
    while (count < keys * 2) count *= 2;
    if (count > buckets_.size()) grow(count);
  }

  void clear() {
    if (used_ > 0) buckets_.assign(buckets_.size(), Bucket{});
    used_ = 0;
  }

 private:
  struct Bucket {
    const void* key = nullptr;
    int32_t index = -1;
  };

  size_t home(const void* key) const {
    return (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9E3779B97F4A7C15ull >> 20 & (buckets_.size() - 1);
  }

  void grow(size_t count) {
    std::vector<Bucket> old = std::move(buckets_);
    buckets_.assign(count, Bucket{});
    used_ = 0;
    for (const Bucket& bucket : old)
      if (bucket.key && bucket.index >= 0) insert(bucket.key, bucket.index);
  }

  std::vector<Bucket> buckets_;
  size_t used_ = 0;
};

}  // namespace tenon
