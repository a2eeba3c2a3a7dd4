// Runs a graph node by node: kernels of ours where it has them, libtorch's own elsewhere.
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
  kernels,   // below autograd, straight to the CPU kernels
  autograd,  // through the whole dispatcher; autograd builds its graph as it did in the program
  visible,   // through the whole dispatcher without gradients, so that a listener sees the ops
};

class Interpreter {
 public:
  // `resources` are what the graph's resource(n) stand for; `keys_off` the dispatch keys to leave
  // out in `kernels` mode; `kernels` what its `tenon::fused` nodes run, by number; `arena` where values
  // lie, empty for memory of their own. With kernels or an arena it runs in `kernels` mode only.
  // `keeps_memory`: the arena's block and the results, if nobody holds them any more, serve the next run.
  Interpreter(ir::Graph graph, ir::Reuse reuse, std::vector<c10::IValue> resources, c10::DispatchKeySet keys_off,
              std::vector<KernelStep> kernels = {}, ir::Arena arena = {}, bool keeps_memory = false);
  ~Interpreter();

  // One tensor per input; returns one per output. Inputs named by write lines are overwritten.
  // `scalars`: one per scalar of the graph, or none for the recorded ones. `seconds`: is given what each node took.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, RunMode mode, c10::ArrayRef<double> scalars = {},
                              std::vector<double>* seconds = nullptr) const;
  // The same in `kernels` mode, for who has no vector of them.
  c10::SmallVector<at::Tensor, 4> run_kernels(c10::ArrayRef<const at::Tensor*> inputs) const;

  const ir::Graph& graph() const { return graph_; }
  int64_t arena_bytes() const { return arena_.bytes; }
  const std::vector<KernelStep>& kernels() const { return kernels_; }
  const KernelStep* kernel(size_t node) const { return steps_[node].kernel; }  // null for an op
  const FlatPlan* flat() const { return flat_.get(); }                         // null if it has none

 private:
  struct Operand {
    ir::ValueId id = ir::kNoValue;
    bool last = false;  // may be moved out of the environment
  };
  struct Argument {
    enum class Kind : uint8_t { constant, scalar, number, tensor, tensors, optional_tensors } kind = Kind::constant;
    c10::IValue constant;
    int32_t scalar = ir::kNoScalar;
    ir::ScalarTensor number;  // the scalar as a 0-d tensor
    std::vector<Operand> operands;
  };
  struct Step {
    std::optional<c10::OperatorHandle> op;  // none: a kernel
    const KernelStep* kernel = nullptr;
    std::vector<Argument> args;
    std::vector<ir::Result> results;
    std::vector<ir::Node::Write> writes;
    std::vector<bool> in_place;
    std::vector<ir::ValueId> drops;         // of a call of ATen: that are no operands
    std::vector<ir::ValueId> reads, makes;  // of a kernel
    ir::ValueId out = ir::kNoValue;         // the op is told where to put this result, its only one
    bool straight = false;                  // may be called at the CPU key
    bool no_op = false;
    bool is_view = false;  // that the frame can make
    bool scatter = false;  // as_strided_scatter, which ATen refuses on some inputs that require grad
    bool no_grad = false;
    size_t fellows = 0;  // that follow it and are products with the same few rows
  };
  void build(ir::Reuse reuse);
  std::vector<bool> find_views() const;
  std::vector<std::vector<ir::ValueId>> find_drops(const ir::Reuse& reuse, const std::vector<bool>& is_view) const;
  std::unique_ptr<Frame> take_frame(c10::ArrayRef<double> scalars) const;
  void give_back(std::unique_ptr<Frame> frame) const;
  Step call_step(const ir::Node& node) const;
  Step kernel_step(const ir::Node& node) const;
  void push(const Argument& argument, Frame& frame, torch::jit::Stack& stack, bool may_move) const;
  void put_copy(const Step& step, ir::ValueId id, const at::Tensor& copy, torch::jit::Stack& stack) const;
  void run_step(const Step& step, Frame& frame, RunMode mode) const;
  void run_steps(Frame& frame, RunMode mode, std::vector<double>* seconds) const;
  void run_kernel(const Step& step, Frame& frame) const;
  const at::Tensor& put_own(const Step& step, ir::ValueId id, Frame& frame) const;
  void run_looked_over(const Step& step, c10::ArrayRef<void*> memory, Frame& frame) const;
  bool run_view(const Step& step, Frame& frame) const;
  void run_call(const Step& step, Frame& frame) const;
  void run_product(const Step& step, Frame& frame) const;
  void find_fellows();
  bool run_joined(c10::ArrayRef<Step> steps, Frame& frame) const;
  void run_convolution(const Step& step, Frame& frame) const;
  void put_results(const Step& step, c10::ArrayRef<at::Tensor> outputs, Frame& frame) const;
  at::Tensor make_room(ir::ValueId id, Frame& frame) const;
  at::Tensor make_own(ir::ValueId id, Frame& frame) const;
  void scatter(const Step& step, Frame& frame) const;
  void write_back(Frame& frame) const;

  ir::Graph graph_;
  std::vector<c10::IValue> resources_;
  c10::DispatchKeySet keys_off_;
  std::vector<KernelStep> kernels_;
  ir::Arena arena_;
  bool keeps_memory_;
  std::vector<Step> steps_;
  std::vector<bool> written_already_;
  std::vector<bool> is_input_;
  std::vector<bool> is_output_;
  std::unique_ptr<const FlatPlan> flat_;  // instead of steps, if it is small enough
  mutable std::atomic<Frame*> spare_{nullptr};
};

}  // namespace tenon::runtime
