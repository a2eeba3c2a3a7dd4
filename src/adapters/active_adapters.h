// The adapters that act on one layer in one call, with the samples of the batch that each of them applies to.
#pragma once

#include <c10/util/SmallVector.h>

#include <vector>

#include "adapters/draws.h"
#include "adapters/training.h"

namespace tenon::adapters {

class ActiveAdapters {
 public:
  // `layer_index` is the index of a layer of the bank, `batch` the number of samples.
  ActiveAdapters(const at::Tensor& pin, int64_t bank, int64_t layer_index, int64_t batch);

  bool is_active() const { return is_active_; }  // Returns whether any adapter acts on the layer.
  bool has_input_transform() const { return has_input_transform_; }
  // Returns a layer adapter whose result depends on the layer's own tensors; null if there is none.
  const LayerAdapter* find_base_user() const;
  bool is_additive() const;  // Returns whether all layer adapters are additive.
  const Layer& layer() const { return layer_; }

  // Both must be called before anything is computed in training mode, with the layer's input as it was given. draw() draws what the
  // adapters drop, first for the adapters of the first sample. draw_again() drops the same as the call that returned `draws`.
  at::Tensor draw(const at::Tensor& x);
  void draw_again(const at::Tensor& draws, const at::Tensor& x);
  // Samples are computed one by one, distributed over all threads, so that a sample's result does not depend on the others. Only samples
  // with dropout are computed together, since their masks are one tensor. apply_to_output writes to y in place.
  at::Tensor transform_input(const at::Tensor& x) const;
  void apply_to_output(at::Tensor& y, const at::Tensor& x) const;
  // Gradients of low-rank products are written out; all others come from libtorch's autograd. `trained` holds the layer's trained
  // parameters. y may be undefined if is_additive(). Gradients that are not requested are undefined, and so is that of x if no sample has
  // an adapter.
  struct AdapterGradients {
    at::Tensor y, x, trained;
  };
  AdapterGradients transform_input_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& trained) const;
  AdapterGradients apply_to_output_backward(const at::Tensor& grad, const at::Tensor& y, const at::Tensor& x, const at::Tensor& trained,
                                            bool needs_x) const;

 private:
  struct ActiveAdapter {
    const LayerAdapter* adapter;  // Owned by the bank table, or by a TrainableSet.
    double factor;
  };
  // Consecutive samples with the same adapters; `set` is an index into sets_.
  struct SampleRange {
    int64_t first, count;
    size_t set;
  };
  using Set = c10::SmallVector<ActiveAdapter, 1>;
  // A copy of a set whose parameters are autograd leaves.
  struct TrainableSet {
    Set set;
    std::vector<LayerAdapterPointer> layer_adapters;  // Owns the layer adapters of `set`.
    std::vector<FlatSlice> parameters;                // The leaves, with their offsets in the layer's flat tensor.
  };

  void add_set(const BankEntry& entry);
  bool has_input_transform(const Set& set) const;
  TrainableSet trainable_set(size_t set, const at::Tensor& trained) const;
  std::vector<SampleRange> ranges_of(size_t set) const;
  static at::Tensor samples_of(const std::vector<SampleRange>& ranges, const at::Tensor& batch);
  DroppingSets draw_masks(const at::Tensor& x, const at::Generator& generator) const;
  void use_masks(DroppingSetsPointer dropping);
  bool is_dropping(size_t set) const { return dropping_ && !(*dropping_)[set].empty(); }
  void apply_to_set(size_t set, at::Tensor& y, const at::Tensor& x) const;
  // Computes the gradients of all sets for which `is_affected` is true. `gradients` receives a trainable set and its samples of `by` and of
  // `grad`, and returns the gradients of the samples, then of the parameters, that require one.
  template <class W, class F>
  void differentiate(const at::Tensor& grad, const std::vector<std::pair<at::Tensor, at::Tensor*>>& by, const at::Tensor& trained,
                     at::Tensor& trained_grad, W&& is_affected, F&& gradients) const;
  static std::vector<at::Tensor> gradients_of(const at::Tensor& out, const TrainableSet& leaves, const std::vector<at::Tensor>& samples,
                                              const at::Tensor& grad);
  bool are_products(const Set& set) const;
  std::vector<at::Tensor> product_gradients(const TrainableSet& leaves, const at::Tensor& y, const at::Tensor& x,
                                            const at::Tensor& grad) const;
  at::Tensor sample_of(const at::Tensor& batch, int64_t i) const;
  Layer effective_layer(const Set& set, bool* has_weight) const;
  at::Tensor transform_sample(const Set& set, const std::vector<at::Tensor>& prepared, at::Tensor x) const;
  at::Tensor apply_to_sample(const Set& set, const std::vector<at::Tensor>& prepared, at::Tensor y, const at::Tensor& x) const;
  std::vector<at::Tensor> prepare_all(const Set& set, bool for_input) const;
  // Computes the samples of all ranges for which `is_wanted` is true and writes each to its row of `to`.
  template <class W, class F>
  void write_samples(at::Tensor& to, W&& is_wanted, F&& compute) const;
  bool has_low_rank(const Set& set, const at::Tensor& y, const at::Tensor& x) const;
  void apply_low_rank(const std::vector<SampleRange>& ranges, at::Tensor& y, const at::Tensor& x) const;

  std::shared_ptr<Core> core_;
  BankTablePointer table_;
  size_t layer_index_;
  const Layer& layer_;
  bool has_one_set_ = false;  // All samples have the same set and are computed as one batch.
  std::vector<Set> sets_;
  std::vector<const BankEntry*> entries_;  // The table's entry of each set.
  std::vector<SampleRange> ranges_;
  bool is_active_ = false, has_input_transform_ = false;
  DroppingSetsPointer dropping_;  // Owns the layer adapters of sets that drop something; null if none does.
};

}  // namespace tenon::adapters
