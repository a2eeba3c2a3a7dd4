// A small graph as a list of steps with all buffer offsets resolved. A run needs pointers only: it makes no tensors except the
// results and does not use the dispatcher.
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
  // Returns null unless the graph consists of kernels, views, small products and small convolutions, and needs little scratch
  // memory. Graph and kernels must outlive the plan; `keys_off` is the same as in the interpreter.
  static std::unique_ptr<const FlatPlan> make(const ir::Graph& graph, const std::vector<KernelStep>& kernels, c10::DispatchKeySet keys_off);
  ~FlatPlan();

  struct InputBuffer {
    const void* data = nullptr;         // Address of the first element.
    c10::StorageImpl* owner = nullptr;  // Result of bridge::owner_of.
    static InputBuffer of(const at::Tensor& tensor) { return {tensor.const_data_ptr(), bridge::owner_of(tensor)}; }
  };
  using InputBuffers = c10::ArrayRef<InputBuffer>;
  using ResultTensors = c10::SmallVector<at::Tensor, 4>;
  // `keeps_results`: the results of the last call are reused if nobody holds them any more.
  ResultTensors run(InputBuffers inputs, c10::ArrayRef<double> scalars, bool keeps_results) const;

 private:
  // A byte offset in one of the buffers of a run: the inputs, the results, and the scratch buffer for intermediate values.
  struct Location {
    int32_t buffer = -1;
    int64_t offset = 0;
  };
  struct FlatStep {
    enum class Kind : uint8_t { kernel, product, convolution } kind = Kind::kernel;
    const KernelStep* kernel = nullptr;
    Gemv product;  // The locations are left, right, the optional bias, and the result.
    SmallConv convolution;
    int64_t image_offset = -1;        // Scratch offset of a channels-last copy of the image; -1 if the image is channels-last.
    std::vector<size_t> weights;      // Indices of the graph's inputs that are packed.
    std::unique_ptr<PackUse> packs;   // Null if nothing is packed.
    std::vector<Location> locations;  // One per value.
    std::vector<ir::ValueId> values;  // Operands, then results.
    size_t inputs = 0;                // Number of operands.
  };

  FlatPlan(const ir::Graph& graph, c10::DispatchKeySet keys_off) : graph_(graph), keys_off_(keys_off), locations_(graph.values.size()) {}
  bool assign_locations();
  bool locate_view(const ir::Node& node);
  bool add(const ir::Node& node, const KernelStep& kernel);
  bool add_product(FlatStep& step) const;
  bool add_convolution(FlatStep& step);
  int64_t whole_input_of(ir::ValueId id) const;
  std::shared_ptr<const Pack> pack(const FlatStep& step, InputBuffers inputs, c10::ArrayRef<double> scalars) const;
  ResultTensors make_results(bool keeps) const;
  void run_product(const FlatStep& step, void* const* memory, const Pack* pack) const;
  void run_convolution(const FlatStep& step, void* const* memory, const Pack& pack, char* block) const;
  void check(const FlatStep& step, void* const* memory, c10::ArrayRef<double> scalars) const;

  const ir::Graph& graph_;
  c10::DispatchKeySet keys_off_;
  std::vector<Location> locations_;  // One per value.
  std::vector<FlatStep> steps_;
  int64_t bytes_ = 0;  // Size of the scratch block.
  mutable std::mutex mutex_;
  mutable ResultTensors last_;                       // Results of the last run, if they are kept.
  mutable std::atomic<char*> spare_block_{nullptr};  // Scratch block that no run uses now.
};

}  // namespace tenon::runtime
