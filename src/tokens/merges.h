// Which neighbours become which token, and before which others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon::tokens {

struct Merge {
  int32_t rank = -1;
  int32_t id = -1;  // of what they become
};

class Merges {
 public:
  void reserve(size_t merges);
  void set(int32_t left, int32_t right, Merge merge);  // the last one for a pair counts

  void apply(std::vector<int32_t>& symbols) const;

 private:
  struct Cell {
    uint64_t pair = kNone;
    Merge merge;
  };
  static constexpr uint64_t kNone = ~uint64_t{0};
  static uint64_t pair_of(int32_t left, int32_t right) { return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right); }

  size_t home(uint64_t pair) const { return (pair * 0x9E3779B97F4A7C15ull) >> shift_; }
  const Merge* find(int32_t left, int32_t right) const;

  std::vector<Cell> cells_;  // open addressing; half of them are free
  int shift_ = 64;
};

}  // namespace tenon::tokens
