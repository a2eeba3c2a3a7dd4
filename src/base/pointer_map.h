// A small hash map from pointers to numbers, for paths where a node a key is too slow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon {

class PointerMap {
 public:
  // The number of this key, or -1.
  int32_t find(const void* key) const {
    if (cells_.empty()) return -1;
    for (size_t i = home(key);; i = (i + 1) & (cells_.size() - 1)) {
      if (cells_[i].key == key) return cells_[i].number;
      if (!cells_[i].key) return -1;
    }
  }

  // False if the key is there already.
  bool insert(const void* key, int32_t number) {
    if ((used_ + 1) * 2 > cells_.size()) grow(cells_.empty() ? 64 : cells_.size() * 2);
    for (size_t i = home(key);; i = (i + 1) & (cells_.size() - 1)) {
      if (cells_[i].key == key) {
        if (cells_[i].number >= 0) return false;
        cells_[i].number = number;  // it was erased
        return true;
      }
      if (cells_[i].key) continue;
      cells_[i] = {key, number};
      ++used_;
      return true;
    }
  }

  void erase(const void* key) {
    for (size_t i = home(key); cells_[i].key; i = (i + 1) & (cells_.size() - 1))
      if (cells_[i].key == key) cells_[i].number = -1;
  }

  // Room for so many keys without growing.
  void reserve(size_t keys) {
    if (cells_.empty()) cells_.assign(64, Cell{});
    size_t cells = cells_.size();
    while (cells < keys * 2) cells *= 2;
    if (cells > cells_.size()) grow(cells);
  }

  void clear() {
    if (used_ > 0) cells_.assign(cells_.size(), Cell{});
    used_ = 0;
  }

 private:
  struct Cell {
    const void* key = nullptr;
    int32_t number = -1;
  };

  size_t home(const void* key) const { return (reinterpret_cast<uintptr_t>(key) >> 4) * 0x9E3779B97F4A7C15ull >> 20 & (cells_.size() - 1); }

  void grow(size_t cells) {
    std::vector<Cell> old = std::move(cells_);
    cells_.assign(cells, Cell{});
    used_ = 0;
    for (const Cell& cell : old)
      if (cell.key && cell.number >= 0) insert(cell.key, cell.number);
  }

  std::vector<Cell> cells_;
  size_t used_ = 0;
};

}  // namespace tenon
