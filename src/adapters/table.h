// What is loaded: a table of entries that never changes once it is made. Whoever changes something makes a new table; a call holds
// the one that it began with.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
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
  std::map<std::string, std::string> repeated;             // Names of tensors that the file holds a second time, and of the first ones.
  double factor = 1;
  bool turns = false;                              // whether any part turns
  std::map<std::string, std::vector<bool>> ranks;  // by path, those that training left, which alone are saved; empty: all
  std::vector<std::vector<int64_t>> trained;       // where each part's parameters begin in what its layer trains; empty: it does not train

  bool has_scale() const;
};
using AdapterPointer = std::shared_ptr<const Adapter>;

// What a row can name: adapters that act together, in this order. The first entry is the base.
struct Entry {
  int64_t id = 0;  // Rows hold it. It is unique among all banks of the process and is never used again.
  std::vector<AdapterPointer> adapters;

  bool acts_on(size_t layer) const;
};

struct Table {
  std::vector<Entry> entries;  // Sorted by id.
  size_t standard = 0;         // for calls that are given no rows

  std::vector<Entry>::const_iterator find(int64_t id) const;  // entries.end() if the id is of another bank or was removed.
  bool is_merged = false;                                     // then no other row may be named
  int64_t number = 0;                                         // under which calls find it
};
using TablePointer = std::shared_ptr<const Table>;

// A new entry at the end of the table.
size_t add_entry(Table& table, std::vector<AdapterPointer> adapters);

inline constexpr int64_t kStandard = -1;  // A row that uses what calls without rows use.

// A bank as ops see it: by its number, which stands in graphs.
class Core {
 public:
  // `layers` are as the model has them now; their tensors may be changed in place.
  explicit Core(std::vector<Layer> layers);
  ~Core();

  const std::vector<Layer>& layers() const { return layers_; }
  const Layer& layer(size_t number) const { return layers_.at(number); }
  int64_t number() const { return number_; }
  // Runs at the start of each call. Set before the bank is used.
  void set_before_call(std::function<void()> f) { before_call_ = std::move(f); }
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

  // Rows for one call: the number of the table, then the indices of the entries. Refuses rows whose adapter was removed, and rows that
  // another bank made. The table is held while the tensor lives; and while few others have come since, for calls that go on with a copy
  // of the tensor's contents.
  at::Tensor pin(const at::Tensor& rows);
  static std::shared_ptr<Core> find(int64_t number);  // throws if the bank is gone
  static TablePointer pinned(const at::Tensor& pin);

 private:
  friend std::shared_ptr<Core> make_core(std::vector<Layer> layers);
  static std::shared_ptr<Table> copy(const Table& table);   // with a number of its own
  static int64_t enter(const std::shared_ptr<Core>& core);  // its number
  void put(TablePointer table);
  [[noreturn]] void refuse_row(int64_t row, int64_t id) const;

  std::vector<Layer> layers_;
  std::function<void()> before_call_;
  int64_t number_ = 0;
  mutable std::mutex readers_;
  std::mutex writers_;
  TablePointer table_;
  std::deque<TablePointer> old_;
};

std::shared_ptr<Core> make_core(std::vector<Layer> layers);  // in ops.cpp: without the ops a bank is nothing

}  // namespace tenon::adapters
