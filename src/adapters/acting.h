// What acts on one layer in one call, row by row.
#pragma once

#include <c10/util/SmallVector.h>

#include <vector>

#include "adapters/table.h"

namespace tenon::adapters {

class Acting {
 public:
  // For a batch of `batch` rows.
  Acting(const at::Tensor& pin, int64_t bank, int64_t number, int64_t batch);

  bool acts() const { return acts_; }
  bool turns() const { return turns_; }
  const Part* find_base_user() const;  // A part whose result depends on the layer's own tensors; null if there is none.
  bool adds() const;                   // what all parts do
  const Layer& layer() const { return layer_; }
  // Row by row on all threads, so that a row does not depend on others; finish into y's memory.
  at::Tensor turn(const at::Tensor& x) const;
  void finish(at::Tensor& y, const at::Tensor& x) const;
  // Gradients: of plain products by hand, else by libtorch's autograd. `trained` holds the layer's parameters that train. Where all parts
  // add, y need not be defined. What is not asked for, and x where no row has an adapter, is not defined.
  struct Gradients {
    at::Tensor y, x, trained;
  };
  Gradients turn_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& trained) const;
  Gradients finish_backward(const at::Tensor& grad, const at::Tensor& y, const at::Tensor& x, const at::Tensor& trained, bool asks_x) const;

 private:
  struct Acts {
    const Part* part;  // of the table
    double factor;
  };
  // Rows that follow each other and have the same parts; `set` is an index.
  struct Run {
    int64_t first, count;
    size_t set;
  };
  using Set = c10::SmallVector<Acts, 1>;
  // Parameters of a set in the place of its own, as leaves of autograd, and where each stands among those that train.
  struct Leaves {
    Set set;
    std::vector<PartPointer> parts;  // of the set
    std::vector<std::pair<at::Tensor, int64_t>> parameters;
  };

  void add_set(const Entry& entry);
  bool turns(const Set& set) const;
  Leaves leaves_of(size_t set, const at::Tensor& trained) const;
  std::vector<Run> runs_of(size_t set) const;
  // Of all sets that `acts`; `gradients` is given a set's leaves, its rows of `by` and of `grad`, and gives the gradients of those rows
  // and leaves that require them, in this order.
  template <class W, class F>
  void differentiate(const at::Tensor& grad, const std::vector<std::pair<at::Tensor, at::Tensor*>>& by, const at::Tensor& trained,
                     at::Tensor& trained_grad, W&& acts, F&& gradients) const;
  static std::vector<at::Tensor> gradients_of(const at::Tensor& out, const Leaves& leaves, const std::vector<at::Tensor>& rows,
                                              const at::Tensor& grad);
  bool are_products(const Set& set) const;
  std::vector<at::Tensor> product_gradients(const Leaves& leaves, const at::Tensor& y, const at::Tensor& x, const at::Tensor& grad) const;
  at::Tensor row_of(const at::Tensor& batch, int64_t i) const;
  Layer seen_by(const Set& set, bool* has_weight) const;
  at::Tensor turn_row(const Set& set, const std::vector<at::Tensor>& ready, at::Tensor x) const;
  at::Tensor finish_row(const Set& set, const std::vector<at::Tensor>& ready, at::Tensor y, const at::Tensor& x) const;
  std::vector<at::Tensor> ready_of(const Set& set, bool of_turns) const;
  // Rows of sets that `is_wanted`, each written to its place in `to`.
  template <class W, class F>
  void write_rows(at::Tensor& to, W&& is_wanted, F&& row) const;
  bool has_low_rank(const Set& set, const at::Tensor& y, const at::Tensor& x) const;
  void finish_low_rank(const std::vector<Run>& runs, at::Tensor& y, const at::Tensor& x) const;

  std::shared_ptr<Core> core_;
  TablePointer table_;
  size_t number_;
  const Layer& layer_;
  bool is_one_ = false;  // one set for the whole batch, whose rows need not be told apart
  std::vector<Set> sets_;
  std::vector<const Entry*> entries_;  // of the sets
  std::vector<Run> runs_;
  bool acts_ = false, turns_ = false;
};

}  // namespace tenon::adapters
