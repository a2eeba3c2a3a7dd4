// The loaded adapters of a bank, as an immutable table of entries. A change makes a new table; a call keeps the table that it began with.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "adapters/layer_adapter.h"

namespace tenon::adapters {

struct Adapter {
  std::string name;
  std::string config;                                            // The text of adapter_config.json.
  std::vector<std::vector<LayerAdapterPointer>> layer_adapters;  // The layer adapters by layer, in the order in which they act.
  std::vector<std::pair<std::string, at::Tensor>> shared;        // Tensors of the file that do not belong to a single layer.
  std::map<std::string, std::string> repeated;  // Maps each tensor that the file holds twice to the name of its first copy.
  double factor = 1;
  bool has_input_transform = false;  // True if any layer adapter is an input transform.
  // The ranks that AdaLoRA training kept, by path; only these are saved. Empty if all are kept.
  std::map<std::string, std::vector<bool>> kept_ranks;
  // The offset of each layer adapter's parameters in its layer's flat tensor of trained parameters. Empty if the adapter is not trained.
  std::vector<std::vector<int64_t>> trained;

  bool has_scale() const;
};
using AdapterPointer = std::shared_ptr<const Adapter>;

// Adapters that act together on a sample, in this order. The first entry of a table is the base.
struct BankEntry {
  // The id that Rows hold. It is unique among all banks of the process and is never reused.
  int64_t id = 0;
  std::vector<AdapterPointer> adapters;

  bool acts_on(size_t layer) const;
};

struct BankTable {
  std::vector<BankEntry> entries;  // Sorted by id.
  size_t default_entry = 0;        // The index of the entry for calls that are given no rows.

  std::vector<BankEntry>::const_iterator find(int64_t id) const;  // Returns entries.end() if the id belongs to another bank or was removed.
  bool is_merged = false;                                         // True if adapters are merged; then rows may only name the base.
  int64_t id = 0;                                                 // The id by which calls find the table.
};
using BankTablePointer = std::shared_ptr<const BankTable>;

// Appends an entry to the table and returns its index.
size_t add_entry(BankTable& table, std::vector<AdapterPointer> adapters);

inline constexpr int64_t kDefaultRow = -1;  // The row value that selects the default entry.

// The state of a bank that ops access. Graphs refer to it by its id.
class Core {
 public:
  // `layers` are those of the model; their tensors may be modified in place later.
  explicit Core(std::vector<Layer> layers);
  ~Core();

  const std::vector<Layer>& layers() const { return layers_; }
  const Layer& layer(size_t index) const { return layers_.at(index); }
  int64_t id() const { return id_; }
  // Sets a function that runs at the start of each call. Must be called before the bank is used.
  void set_before_call(std::function<void()> f) { before_call_ = std::move(f); }
  BankTablePointer table() const;
  // Publishes a copy of the newest table after `change` has modified it. The bank is unchanged if `change` throws.
  template <class F>
  auto change(F&& change) {
    std::lock_guard lock(writers_);
    auto next = copy(*table());
    if constexpr (std::is_void_v<decltype(change(*next))>) {
      change(*next);
      publish(std::move(next));
    } else {
      auto out = change(*next);
      publish(std::move(next));
      return out;
    }
  }

  // Makes the pin of one call: the id of the table, then the index of an entry for each row. Throws UserError for rows of a removed adapter
  // or of another bank. The tensor keeps the table alive. The last few tables are retained as well, for calls that hold only a copy of the
  // tensor's contents.
  at::Tensor pin(const at::Tensor& rows);
  static std::shared_ptr<Core> find(int64_t id);  // Throws UserError if the bank no longer exists.
  static BankTablePointer pinned(const at::Tensor& pin);

 private:
  friend std::shared_ptr<Core> make_core(std::vector<Layer> layers);
  static std::shared_ptr<BankTable> copy(const BankTable& table);   // Copies a table and gives it a new id.
  static int64_t register_core(const std::shared_ptr<Core>& core);  // Returns the new id of the bank.
  void publish(BankTablePointer table);
  [[noreturn]] void refuse_row(int64_t row, int64_t id) const;

  std::vector<Layer> layers_;
  std::function<void()> before_call_;
  int64_t id_ = 0;
  mutable std::mutex readers_;
  std::mutex writers_;
  BankTablePointer table_;
  std::deque<BankTablePointer> retained_;
};

// Defined in ops.cpp, so that linking a bank links the ops that it needs.
std::shared_ptr<Core> make_core(std::vector<Layer> layers);

}  // namespace tenon::adapters
