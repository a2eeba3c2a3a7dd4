// What is loaded: a table of entries that never changes once it is made. Whoever changes something makes a new table; a call holds
// the one that it began with.
#pragma once

#include <ATen/core/Tensor.h>

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
  std::vector<std::vector<int64_t>> trained;  // where each part's parameters begin in what its layer trains; empty: it does not train

  bool has_scale() const;
};
using AdapterPointer = std::shared_ptr<const Adapter>;

// The part over its tensors in `flat`, which follow each other from `first` on.
PartPointer over_flat(const Part& part, const at::Tensor& flat, int64_t first);

// What a row can name: adapters that act together, in this order. The first entry is the base.
struct Entry {
  std::vector<AdapterPointer> adapters;
  uint32_t generation = 0;  // counts up when the entry is taken back: rows that name it no longer fit
  bool is_free = false;

  bool acts_on(size_t layer) const;
};

struct Table {
  std::vector<Entry> entries{1};
};
using TablePointer = std::shared_ptr<const Table>;

// Rows as numbers: the entry below, its generation above.
inline int64_t row_of(size_t entry, uint32_t generation) { return static_cast<int64_t>(static_cast<uint64_t>(generation) << 32 | entry); }

// A bank as ops see it: by its number, which stands in graphs.
class Core {
 public:
  // `layers` are as the model has them now; their tensors may be changed in place.
  explicit Core(std::vector<Layer> layers);

  const std::vector<Layer>& layers() const { return layers_; }
  const Layer& layer(size_t number) const { return layers_.at(number); }
  int64_t number() const { return number_; }
  TablePointer table() const;
  // `change` is given a copy of the newest table; nothing happens if it throws.
  template <class F>
  auto change(F&& change) {
    std::lock_guard lock(writers_);
    auto next = std::make_shared<Table>(*table());
    if constexpr (std::is_void_v<decltype(change(*next))>) {
      change(*next);
      put(std::move(next));
    } else {
      auto out = change(*next);
      put(std::move(next));
      return out;
    }
  }

  // Rows for one call: a number under which the table is held as long as the tensor lives, then the entries. Refuses rows whose
  // adapter was removed.
  at::Tensor pin(const at::Tensor& rows);
  static std::shared_ptr<Core> find(int64_t number);  // throws if the bank is gone
  static TablePointer pinned(const at::Tensor& pin);

 private:
  friend std::shared_ptr<Core> make_core(std::vector<Layer> layers);
  static int64_t enter(const std::shared_ptr<Core>& core);  // its number
  void put(TablePointer table);

  std::vector<Layer> layers_;
  int64_t number_ = 0;
  mutable std::mutex readers_;
  std::mutex writers_;
  TablePointer table_;
};

std::shared_ptr<Core> make_core(std::vector<Layer> layers);  // in ops.cpp: without the ops a bank is nothing

}  // namespace tenon::adapters
