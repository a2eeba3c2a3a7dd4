// Batches of a dataset, in the order of PyTorch's DataLoader.
//
//   tenon::DataLoader loader(tenon::make_dataset(data), {.batch_size = 8, .shuffle = true});
//   for (const std::vector<at::Tensor>& batch : loader) ...
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include <tenon/export.h>

namespace tenon {

// Examples by index. Functions are called by one thread at a time.
class TENON_API Dataset {
 public:
  virtual ~Dataset() = default;
  virtual size_t size() const = 0;
  // Returns the tensors of a batch of these examples, in the order in which the loss function takes them.
  virtual std::vector<at::Tensor> batch(const std::vector<size_t>& indices) const = 0;
};

// Wraps a map-style dataset of torch::data that returns whole batches: one that was mapped with a Stack transform, or whose get_batch
// returns tensors. The tensors of a batch are data and target of its Example.
template <class D>
std::shared_ptr<const Dataset> make_dataset(D dataset) {
  struct Wrapped : Dataset {
    explicit Wrapped(D inner) : inner_(std::move(inner)) {}
    size_t size() const override { return inner_.size().value(); }
    std::vector<at::Tensor> batch(const std::vector<size_t>& indices) const override {
      auto out = inner_.get_batch(indices);
      if constexpr (requires { out.target.dim(); }) return {out.data, out.target};
      else if constexpr (requires { out.data.dim(); }) return {out.data};
      else return out;
    }
    mutable D inner_;  // get_batch is not const.
  };
  return std::make_shared<Wrapped>(std::move(dataset));
}

// The fields have the names, meanings and defaults of PyTorch's DataLoader.
struct DataLoaderOptions {
  int64_t batch_size = 1;
  // Draws a new order for each iteration, from a generator that the default generator seeds.
  bool shuffle = false;
  // Leaves out the last batch if it is smaller than the others.
  bool drop_last = false;
};

namespace detail {

// The position of a loader, and what a process that continues from a checkpoint needs to draw the same order again.
struct LoaderProgress {
  int64_t epoch = 0;                // Number of iterations that have ended.
  size_t batches = 0;               // Number of batches of the current iteration that the program has got.
  std::weak_ptr<void> iteration;    // The current iteration; expired if there is none.
  at::Tensor default_generator;     // State of the default generator when the iteration began.
  at::Tensor own_generator_before;  // State of the loader's own generator at that moment, if it has one.
  at::Tensor own_generator;         // Current state of that generator.
  bool is_resumed = false;          // The state was loaded. If it has a default_generator, the next iteration continues that one.
};

// How an Accelerator divides batches over processes, and what it learns of an iteration.
struct LoaderShare {
  int64_t rank = 0, ranks = 1;
  bool split_batches = false, even_batches = true;
  // Returns the tensor of rank 0.
  std::function<at::Tensor(const at::Tensor&)> broadcast;
  // Called at the begin and at the end of an iteration, and for each batch before the program gets it.
  std::function<void(const LoaderProgress* loader, int64_t examples, int64_t examples_per_round)> begin;
  std::function<void(const LoaderProgress* loader, bool is_last)> next;
  std::function<void(const LoaderProgress* loader)> end;
};

}  // namespace detail

// Copies share their position. One thread at a time, and one iteration at a time.
class TENON_API DataLoader {
 public:
  // Throws UserError(config) if there is no dataset or the batch size is not positive.
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::vector<at::Tensor>;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type*;
    using reference = const value_type&;

    const value_type& operator*() const { return batch_; }
    const value_type* operator->() const { return &batch_; }
    TENON_API Iterator& operator++();
    bool operator==(const Iterator& other) const { return index_ == other.index_; }

   private:
    friend class DataLoader;
    Iterator() = default;
    void read();

    DataLoader* loader_ = nullptr;
    std::shared_ptr<void> alive_;
    std::vector<std::vector<size_t>> batches_;
    size_t index_ = kEnd;
    value_type batch_;
    static constexpr size_t kEnd = static_cast<size_t>(-1);
  };

  // Begins an iteration.
  Iterator begin();
  Iterator end() const { return {}; }

  // Number of batches of an iteration.
  size_t size() const;
  // Number of iterations that have reached their end.
  int64_t epoch() const { return progress_->epoch; }
  // Leaves out this many batches at the begin of the next iteration. Not needed after Accelerator::load_state, which continues the
  // iteration that was interrupted.
  void skip_first_batches(size_t count) { skipped_ = count; }

  const DataLoaderOptions& options() const { return options_; }
  const std::shared_ptr<detail::LoaderProgress>& progress() const { return progress_; }
  // The batches that one process gets, of a loader that is the same in all processes. Meant for Accelerator.
  DataLoader shared(detail::LoaderShare share) const;

 private:
  std::vector<size_t> draw_order();
  void end_iteration();

  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  detail::LoaderShare share_;
  std::optional<at::Generator> generator_;  // The same one in all processes, if the loader is shared.
  std::shared_ptr<detail::LoaderProgress> progress_ = std::make_shared<detail::LoaderProgress>();
  size_t skipped_ = 0;
};

}  // namespace tenon
