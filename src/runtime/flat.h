// A small graph as a list of functions and the places of what they read and write: what it takes to run it is
// pointers alone. No tensor is made but results, nothing is dispatched.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/gemv.h"
#include "runtime/kernel_step.h"
#include "runtime/small_conv.h"

namespace tenon::runtime {

class FlatPlan {
 public:
  // Null for a graph that is not of kernels, views and small products alone, or needs much memory. Graph and kernels must live as
  // long as the plan; `keys_off` as in the interpreter.
  static std::unique_ptr<const FlatPlan> make(const ir::Graph& graph, const std::vector<KernelStep>& kernels, c10::DispatchKeySet keys_off);
  ~FlatPlan();

  struct Input {
    const void* data = nullptr;         // its first element
    c10::StorageImpl* owner = nullptr;  // of the memory, as bridge::owner_of has it
    static Input of(const at::Tensor& tensor) { return {tensor.const_data_ptr(), bridge::owner_of(tensor)}; }
  };
  using Inputs = c10::ArrayRef<Input>;
  using Results = c10::SmallVector<at::Tensor, 4>;
  // `keeps_results`: those of the last call are given out again if nobody holds them any more.
  Results run(Inputs inputs, c10::ArrayRef<double> scalars, bool keeps_results) const;

 private:
  // Bytes from where one of a run's memories begins: inputs, results, then the block for what lies between.
  struct Place {
    int32_t memory = -1;
    int64_t offset = 0;
  };
  struct Step {
    enum class Kind : uint8_t { kernel, product, convolution } kind = Kind::kernel;
    const KernelStep* kernel = nullptr;
    Gemv product;  // of places left, right, row if any, out
    SmallConv convolution;
    int64_t image = -1;              // where in the block there is room for the image with its channels last, if it has them elsewhere
    std::vector<size_t> weights;     // which inputs of the graph are packed
    std::unique_ptr<PackUse> packs;  // null: nothing is
    std::vector<Place> places;
    std::vector<ir::ValueId> values;  // the same
    size_t inputs = 0;                // how many of them are read
  };

  FlatPlan(const ir::Graph& graph, c10::DispatchKeySet keys_off) : graph_(graph), keys_off_(keys_off), places_(graph.values.size()) {}
  bool place_all();
  bool place_view(const ir::Node& node);
  bool add(const ir::Node& node, const KernelStep& kernel);
  bool add_product(Step& step) const;
  bool add_convolution(Step& step);
  int64_t input_of(ir::ValueId id) const;
  std::shared_ptr<const Pack> pack(const Step& step, Inputs inputs, c10::ArrayRef<double> scalars) const;
  Results make_results(bool keeps) const;
  void run_product(const Step& step, void* const* memory, const Pack* pack) const;
  void run_convolution(const Step& step, void* const* memory, const Pack& pack, char* block) const;
  void check(const Step& step, void* const* memory, c10::ArrayRef<double> scalars) const;

  const ir::Graph& graph_;
  c10::DispatchKeySet keys_off_;
  std::vector<Place> places_;  // per value
  std::vector<Step> steps_;
  int64_t bytes_ = 0;  // of the block
  mutable std::mutex mutex_;
  mutable Results last_;                       // that were kept
  mutable std::atomic<char*> spare_{nullptr};  // a block that nobody uses now
};

}  // namespace tenon::runtime
