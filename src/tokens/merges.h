// The merge table of BPE: which adjacent tokens become which token, and with which priority.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::tokens {

struct Merge {
  int32_t rank = -1;
  int32_t id = -1;  // Id of the merged token.
};

class Merges {
 public:
  void reserve(size_t merges);
  void set(int32_t left, int32_t right, Merge merge);  // A later entry for the same pair overrides an earlier one.

  void apply(std::vector<int32_t>& symbols) const;

 private:
  struct MergeBucket {
    uint64_t pair = kNone;
    Merge merge;
  };
  static constexpr uint64_t kNone = ~uint64_t{0};
  static uint64_t pair_of(int32_t left, int32_t right) { return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right); }

  size_t home(uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15ull) >> shift_; }
  const Merge* find(int32_t left, int32_t right) const;

  std::vector<MergeBucket> buckets_;  // Hash table with open addressing; at most half full.
  int shift_ = 64;
};

}  // namespace tenon::tokens
