// Runs a graph node by node, with native kernels for fused nodes and libtorch's kernels for the others.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"
#include "runtime/flat.h"
#include "runtime/frame.h"
#include "runtime/kernel_step.h"

namespace tenon::runtime {

enum class RunMode : uint8_t {
  kernels,   // Calls the CPU kernels below autograd.
  autograd,  // Uses the whole dispatcher; autograd builds its graph as in the program.
  visible,   // Uses the whole dispatcher with grad mode off, so that a listener sees the ops.
};

class Interpreter {
 public:
  // `resources` are the values of the graph's resource(n); `keys_off` the dispatch keys to exclude in `kernels` mode; `kernels` the
  // kernels of its `tenon::fused` nodes, by group index; `arena` the offsets of values, empty if each value has its own storage. An
  // interpreter with kernels or an arena runs in `kernels` mode only. `keeps_memory`: the arena's block, and results that nobody
  // holds any more, are reused in the next run.
  Interpreter(ir::Graph graph, ir::Reuse reuse, std::vector<c10::IValue> resources, c10::DispatchKeySet keys_off,
              std::vector<KernelStep> kernels = {}, ir::Arena arena = {}, bool keeps_memory = false);
  ~Interpreter();

  // Takes one tensor per input and returns one per output. Inputs that are written back are overwritten. `scalars` has one element
  // per scalar of the graph; if empty, the recorded scalars are used. `seconds` receives the time of each node.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, RunMode mode, c10::ArrayRef<double> scalars = {},
                              std::vector<double>* seconds = nullptr) const;
  // The same in `kernels` mode, for inputs that are not in a vector.
  c10::SmallVector<at::Tensor, 4> run_kernels(c10::ArrayRef<const at::Tensor*> inputs) const;

  const ir::Graph& graph() const { return graph_; }
  int64_t arena_bytes() const { return arena_.bytes; }
  const std::vector<KernelStep>& kernels() const { return kernels_; }
  const KernelStep* kernel(size_t node) const { return steps_[node].kernel; }  // Null for an op that runs in ATen.
  const FlatPlan* flat() const { return flat_.get(); }                         // Null if the graph has none.

 private:
  struct Operand {
    ir::ValueId id = ir::kNoValue;
    bool last = false;  // The value dies here and may be moved out of the frame.
  };
  struct StepArgument {
    enum class Kind : uint8_t { constant, scalar, scalar_tensor, tensor, tensors, optional_tensors } kind = Kind::constant;
    c10::IValue constant;
    int32_t scalar = ir::kNoScalar;
    ir::ScalarTensor scalar_tensor;  // The scalar as a 0-d tensor.
    std::vector<Operand> operands;
  };
  struct NodeStep {
    std::optional<c10::OperatorHandle> op;  // Nullopt for a kernel.
    const KernelStep* kernel = nullptr;
    std::vector<StepArgument> args;
    std::vector<ir::Result> results;
    std::vector<ir::Node::Write> writes;
    std::vector<bool> in_place;
    std::vector<ir::ValueId> drops;         // Values that die here; for an ATen call, only those that are not moved into an operand.
    std::vector<ir::ValueId> reads, makes;  // Operands and results of a kernel.
    ir::ValueId out = ir::kNoValue;         // The only result of an op with an `out=` overload, if it has a given buffer.
    bool calls_cpu_directly = false;        // The op has a kernel at the CPU dispatch key.
    bool no_op = false;
    bool is_view = false;  // The frame can make the results as views.
    bool scatter = false;  // The op is as_strided_scatter, which ATen refuses on some inputs that require grad.
    bool no_grad = false;
    size_t joinable_successors = 0;  // Number of following steps that are products with the same left operand.
  };
  void build(ir::Reuse reuse);
  std::vector<bool> find_views() const;
  std::vector<std::vector<ir::ValueId>> find_drops(const ir::Reuse& reuse, const std::vector<bool>& is_view) const;
  std::unique_ptr<RunFrame> take_frame(c10::ArrayRef<double> scalars) const;
  void give_back(std::unique_ptr<RunFrame> frame) const;
  NodeStep call_step(const ir::Node& node) const;
  NodeStep kernel_step(const ir::Node& node) const;
  void push(const StepArgument& argument, RunFrame& frame, torch::jit::Stack& stack, bool may_move) const;
  void put_copy(const NodeStep& step, ir::ValueId id, const at::Tensor& copy, torch::jit::Stack& stack) const;
  void run_step(const NodeStep& step, RunFrame& frame, RunMode mode) const;
  void run_steps(RunFrame& frame, RunMode mode, std::vector<double>* seconds) const;
  void run_kernel(const NodeStep& step, RunFrame& frame) const;
  const at::Tensor& put_output(const NodeStep& step, ir::ValueId id, RunFrame& frame) const;
  void run_checked(const NodeStep& step, c10::ArrayRef<void*> memory, RunFrame& frame) const;
  bool run_view(const NodeStep& step, RunFrame& frame) const;
  void run_call(const NodeStep& step, RunFrame& frame) const;
  void run_product(const NodeStep& step, RunFrame& frame) const;
  void find_joinable();
  bool run_joined(c10::ArrayRef<NodeStep> steps, RunFrame& frame) const;
  void run_convolution(const NodeStep& step, RunFrame& frame) const;
  void put_results(const NodeStep& step, c10::ArrayRef<at::Tensor> outputs, RunFrame& frame) const;
  at::Tensor output_buffer(ir::ValueId id, RunFrame& frame) const;
  at::Tensor allocate_output(ir::ValueId id, RunFrame& frame) const;
  void scatter(const NodeStep& step, RunFrame& frame) const;
  void write_back(RunFrame& frame) const;

  ir::Graph graph_;
  std::vector<c10::IValue> resources_;
  c10::DispatchKeySet keys_off_;
  std::vector<KernelStep> kernels_;
  ir::Arena arena_;
  bool keeps_memory_;
  std::vector<NodeStep> steps_;
  std::vector<bool> written_already_;
  std::vector<bool> is_input_;
  std::vector<bool> is_output_;
  std::unique_ptr<const FlatPlan> flat_;  // Runs instead of the steps, if the graph is small enough.
  mutable std::atomic<RunFrame*> spare_frame_{nullptr};
};

}  // namespace tenon::runtime
