// What is loaded: a table of entries that never changes once it is made. Whoever changes something makes a new table; a call holds
// the one that it began with.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "adapters/part.h"

namespace tenon::adapters {

struct Adapter {
  std::string name;
  std::string config;                                      // the text of adapter_config.json
  std::vector<std::vector<PartPointer>> parts;             // by layer, in the order in which they act
  std::vector<std::pair<std::string, at::Tensor>> shared;  // tensors of the file that belong to no part
  double factor = 1;
  bool turns = false;                              // whether any part turns
  std::map<std::string, std::vector<bool>> ranks;  // by path, those that training left, which alone are saved; empty: all
  std::vector<std::vector<int64_t>> trained;       // where each part's parameters begin in what its layer trains; empty: it does not train

  bool has_scale() const;
};
using AdapterPointer = std::shared_ptr<const Adapter>;

// What a row can name: adapters that act together, in this order. The first entry is the base.
struct Entry {
  std::vector<AdapterPointer> adapters;
  uint16_t generation = 0;  // counts up when the entry is taken back: rows that name it no longer fit
  bool is_free = false;

  bool acts_on(size_t layer) const;
};

struct Table {
  std::vector<Entry> entries{1};
  size_t standard = 0;     // for calls that are given no rows
  bool is_merged = false;  // then no other row may be named
  int64_t number = 0;      // under which calls find it
};
using TablePointer = std::shared_ptr<const Table>;

// Rows as numbers, so that those of another bank, or of an adapter that is gone, are known.
struct Row {
  uint32_t entry;
  uint16_t generation, bank;
};
inline constexpr int64_t kStandard = -1;

// A bank as ops see it: by its number, which stands in graphs.
class Core {
 public:
  // `layers` are as the model has them now; their tensors may be changed in place.
  explicit Core(std::vector<Layer> layers);
  ~Core();

  const std::vector<Layer>& layers() const { return layers_; }
  const Layer& layer(size_t number) const { return layers_.at(number); }
  int64_t number() const { return number_; }
  TablePointer table() const;
  // `change` is given a copy of the newest table; nothing happens if it throws.
  template <class F>
  auto change(F&& change) {
    std::lock_guard lock(writers_);
    auto next = copy(*table());
    if constexpr (std::is_void_v<decltype(change(*next))>) {
      change(*next);
      put(std::move(next));
    } else {
      auto out = change(*next);
      put(std::move(next));
      return out;
    }
  }

  int64_t row_of(const Table& table, size_t entry) const;
  // Rows for one call: the number of the table, then the entries. Refuses rows whose adapter was removed. The table is held while the
  // tensor lives; and while few others have come since, for calls that go on with a copy of the tensor's contents.
  at::Tensor pin(const at::Tensor& rows);
  static std::shared_ptr<Core> find(int64_t number);  // throws if the bank is gone
  static TablePointer pinned(const at::Tensor& pin);

 private:
  friend std::shared_ptr<Core> make_core(std::vector<Layer> layers);
  static std::shared_ptr<Table> copy(const Table& table);   // with a number of its own
  static int64_t enter(const std::shared_ptr<Core>& core);  // its number
  void put(TablePointer table);

  std::vector<Layer> layers_;
  int64_t number_ = 0;
  mutable std::mutex readers_;
  std::mutex writers_;
  TablePointer table_;
  std::deque<TablePointer> old_;
};

std::shared_ptr<Core> make_core(std::vector<Layer> layers);  // in ops.cpp: without the ops a bank is nothing

}  // namespace tenon::adapters
