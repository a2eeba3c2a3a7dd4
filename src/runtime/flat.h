// A small graph as a list of steps with all buffer offsets resolved. A run needs pointers only: it makes no tensors except the
// results and does not use the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "ir/graph/graph.h"
#include "runtime/frame.h"
#include "runtime/fused_op.h"
#include "runtime/gemv.h"
#include "runtime/small_conv.h"

namespace tenon::runtime {

class FlatPlan {
 public:
  // Returns null unless the graph consists of kernels, views, small products and small convolutions, and needs little scratch
  // memory. Layout and fused ops must outlive the plan; `keys_off` is the same as in the interpreter.
  static std::unique_ptr<const FlatPlan> make(const FrameLayout& layout, const std::vector<FusedOp>& fused_ops,
                                              c10::DispatchKeySet keys_off);
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
  struct BufferOffset {
    int32_t buffer = -1;
    int64_t offset = 0;
  };
  // Inputs of the graph that a step packs once for all runs.
  struct PackedInputs {
    std::vector<size_t> indices;
    bool is_required = false;  // The step cannot use the inputs as they are; they are packed in every run if a pack cannot be kept.
    std::unique_ptr<PackUse> packs = std::make_unique<PackUse>();
  };
  // The locations are left, right, the optional bias, and the result.
  struct FlatProduct {
    Gemv gemv;
    std::optional<PackedInputs> weight;  // Nullopt if the right operand is used as it is.
  };
  struct FlatConvolution {
    const ConvolutionStep* call = nullptr;
    SmallConv convolution;
    PackedInputs weights;
    int64_t image_offset = -1;  // Scratch offset of a channels-last copy of the image; -1 if the image is channels-last.
  };
  struct FlatStep {
    const FusedOp* op = nullptr;
    std::vector<BufferOffset> locations;  // One per value.
    std::vector<ir::ValueId> values;      // Operands, then results.
    size_t inputs = 0;                    // Number of operands.
    std::variant<const KernelCall*, FlatProduct, FlatConvolution> computation;
  };
  // The arguments of a run that its steps need.
  struct FlatRun {
    InputBuffers inputs;
    c10::ArrayRef<double> scalars;
    char* scratch;
  };

  FlatPlan(const FrameLayout& layout, c10::DispatchKeySet keys_off)
      : graph_(layout.graph), types_(layout.types), keys_off_(keys_off), locations_(graph_.values.size()) {}
  bool assign_locations();
  bool locate_view(const ir::Node& node);
  bool add(const ir::Node& node, const FusedOp& op);
  bool add_product(FlatStep& step) const;
  bool add_convolution(FlatStep& step, const ConvolutionStep& call);
  int64_t whole_input_of(ir::ValueId id) const;
  template <class F>
  std::shared_ptr<const Pack> pack(const PackedInputs& what, InputBuffers inputs, c10::ArrayRef<int64_t> detail, F&& make) const;
  ResultTensors make_results(bool keeps) const;
  void run_as(const KernelCall* kernel, const FlatStep& step, c10::ArrayRef<void*> memory, const FlatRun& run) const;
  void run_as(const FlatProduct& product, const FlatStep& step, c10::ArrayRef<void*> memory, const FlatRun& run) const;
  void run_as(const FlatConvolution& convolution, const FlatStep& step, c10::ArrayRef<void*> memory, const FlatRun& run) const;
  void check(const FlatStep& step, c10::ArrayRef<void*> memory, c10::ArrayRef<double> scalars) const;

  const ir::Graph& graph_;
  const std::vector<ir::FixedType>& types_;  // One per value.
  c10::DispatchKeySet keys_off_;
  std::vector<BufferOffset> locations_;  // One per value.
  std::vector<FlatStep> steps_;
  int64_t bytes_ = 0;  // Size of the scratch block.
  mutable std::mutex mutex_;
  mutable ResultTensors last_;                       // Results of the last run, if they are kept.
  mutable std::atomic<char*> spare_block_{nullptr};  // Scratch block that no run uses now.
};

}  // namespace tenon::runtime
