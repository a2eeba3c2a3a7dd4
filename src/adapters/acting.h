// What acts on one layer in one call, row by row.
#pragma once

#include <vector>

#include "adapters/table.h"

namespace tenon::adapters {

class Acting {
 public:
  // For a batch of `batch` rows. `trained`, if defined, stands in the place of the parameters that train.
  Acting(const at::Tensor& pin, int64_t bank, int64_t number, int64_t batch, const at::Tensor& trained = {});

  bool acts() const { return acts_; }
  bool turns() const { return turns_; }
  bool uses_base() const;
  // New tensors; autograd can follow.
  at::Tensor turned(const at::Tensor& x) const;
  at::Tensor finished(const at::Tensor& y, const at::Tensor& x) const;
  // The same without autograd, row by row on all threads; finish into y's memory.
  at::Tensor turn(const at::Tensor& x) const;
  void finish(at::Tensor& y, const at::Tensor& x) const;

 private:
  struct Acts {
    PartPointer part;
    double factor;
  };
  // Rows that follow each other and have the same parts; `set` is an index.
  struct Run {
    int64_t first, count;
    size_t set;
  };
  using Set = std::vector<Acts>;

  void add_set(const Entry& entry, const at::Tensor& trained);
  // `each` is given a row's set and its place.
  template <class F>
  at::Tensor row_by_row(F&& each) const;
  at::Tensor row_of(const at::Tensor& batch, int64_t i) const;
  Layer seen_by(const Set& set, bool* has_weight) const;
  at::Tensor turn_row(const Set& set, const std::vector<at::Tensor>& ready, at::Tensor x) const;
  at::Tensor finish_row(const Set& set, const std::vector<at::Tensor>& ready, at::Tensor y, const at::Tensor& x) const;
  std::vector<at::Tensor> ready_of(const Set& set, bool of_turns) const;
  // Rows of sets that `is_wanted`, each written to its place in `to`.
  template <class W, class F>
  void write_rows(at::Tensor& to, W&& is_wanted, F&& row) const;
  bool finish_low_rank(const Run& run, at::Tensor& y, const at::Tensor& x, std::vector<std::vector<LowRankJob>>& jobs) const;

  std::shared_ptr<Core> core_;
  TablePointer table_;
  size_t number_;
  Layer layer_;
  bool is_one_ = false;  // one set for the whole batch, whose rows need not be told apart
  std::vector<Set> sets_;
  std::vector<Run> runs_;
  bool acts_ = false, turns_ = false;
};

}  // namespace tenon::adapters
