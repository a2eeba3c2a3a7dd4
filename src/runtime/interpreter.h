// Runs a graph node by node: kernels of ours where it has them, libtorch's own elsewhere.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"
#include "runtime/flat.h"
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
  Interpreter(ir::Graph graph, ir::Reuse reuse, std::vector<c10::IValue> resources, c10::DispatchKeySet keys_off,
              std::vector<KernelStep> kernels = {}, ir::Arena arena = {});

  // One tensor per input; returns one per output. Inputs named by write lines are overwritten.
  // `scalars`: one per scalar of the graph, or none for the recorded ones.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, RunMode mode, c10::ArrayRef<double> scalars = {}) const;

  const ir::Graph& graph() const { return graph_; }
  int64_t arena_bytes() const { return arena_.bytes; }
  const FlatPlan* flat() const { return flat_.get(); }  // null if it has none

 private:
  struct Operand {
    ir::ValueId id = ir::kNoValue;
    bool last = false;  // may be moved out of the environment
  };
  struct Argument {
    enum class Kind : uint8_t { constant, scalar, number, tensor, tensors, optional_tensors } kind = Kind::constant;
    c10::IValue constant;
    int32_t scalar = ir::kNoScalar;
    ir::NumberTensor number;  // the scalar as a 0-d tensor
    std::vector<Operand> operands;
  };
  struct Step {
    std::optional<c10::OperatorHandle> op;  // none: a kernel
    const KernelStep* kernel = nullptr;
    std::vector<Argument> args;
    std::vector<ir::Result> results;
    std::vector<ir::Node::Write> writes;
    std::vector<bool> in_place;
    std::vector<ir::ValueId> drops;
    ir::ValueId out = ir::kNoValue;  // the op is told where to put this result, its only one
    bool straight = false;           // may be called at the CPU key
    bool no_op = false;
    bool scatter = false;  // as_strided_scatter, which ATen refuses on some inputs that require grad
    bool no_grad = false;
  };
  struct Environment {
    std::vector<at::Tensor> tensors;
    c10::ArrayRef<double> scalars;
    char* block = nullptr;          // of the arena
    std::vector<at::Tensor> hosts;  // of the arena
    at::Tensor& operator[](size_t id) { return tensors[id]; }
    const at::Tensor& operator[](size_t id) const { return tensors[id]; }
  };

  void build(ir::Reuse reuse);
  Step call_step(const ir::Node& node) const;
  Step kernel_step(const ir::Node& node) const;
  void push(const Argument& argument, Environment& env, torch::jit::Stack& stack, bool may_move) const;
  void put_copy(const Step& step, ir::ValueId id, const at::Tensor& copy, torch::jit::Stack& stack) const;
  void run_step(const Step& step, Environment& env, torch::jit::Stack& stack, RunMode mode) const;
  void run_kernel(const Step& step, Environment& env) const;
  void run_call(const Step& step, Environment& env) const;
  void run_product(const Step& step, Environment& env) const;
  void run_convolution(const Step& step, Environment& env) const;
  void put_results(const Step& step, c10::ArrayRef<at::Tensor> outputs, Environment& env) const;
  at::Tensor make_room(ir::ValueId id, const Environment& env) const;
  void scatter(const Step& step, Environment& env) const;
  void write_back(Environment& env) const;

  ir::Graph graph_;
  std::vector<c10::IValue> resources_;
  c10::DispatchKeySet keys_off_;
  std::vector<KernelStep> kernels_;
  ir::Arena arena_;
  std::vector<Step> steps_;
  std::vector<bool> written_already_;
  std::vector<bool> is_input_;
  std::unique_ptr<const FlatPlan> flat_;  // instead of steps, if it is small enough
};

}  // namespace tenon::runtime
