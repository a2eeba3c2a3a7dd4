// Runs a graph node by node, with native kernels for fused nodes and libtorch's kernels for the others. An interpreter is made for one
// set of values of the graph's symbols; interpreters of other sizes share the graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <variant>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"
#include "runtime/aten_step.h"
#include "runtime/flat.h"
#include "runtime/frame.h"
#include "runtime/fused_step.h"
#include "runtime/run_mode.h"

namespace tenon::runtime {

class Interpreter {
 public:
  // `symbols` are the values of the graph's symbols; `resources` those of its resource(n); `keys_off` the dispatch keys to exclude in
  // `kernels` mode; `fused_ops` what its `tenon::fused` nodes run, by group index; `arena` the offsets of values, empty if each value
  // has its own storage. An interpreter with fused ops or an arena runs in `kernels` mode only. `keeps_memory`: the arena's block, and
  // results that nobody holds any more, are reused in the next run.
  Interpreter(std::shared_ptr<const ir::Graph> graph, ir::SymbolValues symbols, ir::Reuse reuse, const std::vector<c10::IValue>& resources,
              c10::DispatchKeySet keys_off, std::vector<FusedOp> fused_ops = {}, ir::Arena arena = {}, bool keeps_memory = false);
  ~Interpreter();

  // Takes one tensor per input and returns one per output. Inputs that are written back are overwritten. `scalars` has one element
  // per scalar of the graph; if empty, the recorded scalars are used. `seconds` receives the time of each node.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, RunMode mode, c10::ArrayRef<double> scalars = {},
                              std::vector<double>* seconds = nullptr) const;
  // The same in `kernels` mode, for inputs that are not in a vector.
  c10::SmallVector<at::Tensor, 4> run_kernels(c10::ArrayRef<const at::Tensor*> inputs) const;

  // Frees the memory that is kept for the next run, if any. May be called while other threads run the graph.
  void release_kept_memory() const;

  const ir::Graph& graph() const { return graph_; }
  const ir::SymbolValues& symbols() const { return layout_.symbols; }
  const ir::FixedType& type(ir::ValueId id) const { return layout_.types[id]; }
  int64_t arena_bytes() const { return layout_.arena.bytes; }
  const std::vector<FusedOp>& fused_ops() const { return fused_ops_; }
  const FusedOp* fused_op(size_t node) const;           // Null for an op that runs in ATen.
  const FlatPlan* flat() const { return flat_.get(); }  // Null if the graph has none.

 private:
  // A scatter into a tensor that has these contents already: the result is the operand.
  struct NoOpStep {
    ir::ValueId operand, result;
    std::vector<ir::ValueId> drops;
  };
  // Results are views that the frame can make by itself in `kernels` mode.
  struct ViewStep {
    std::vector<ir::ValueId> results, drops;
    AtenStep by_aten;
  };
  // as_strided_scatter, which ATen refuses on some inputs that require grad, so it is called in `autograd` mode only.
  struct ScatterStep {
    ir::ValueId whole, part, result;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
    std::vector<ir::ValueId> drops;
    AtenStep by_aten;
  };
  struct NodeStep {
    std::variant<AtenStep, FusedStep, ViewStep, ScatterStep, NoOpStep> computation;
    bool no_grad = false;
    std::vector<const FusedStep*> joined;  // This product and those after it with the same left operand; empty if there are none.
  };
  void build(ir::Reuse reuse, const std::vector<c10::IValue>& resources);
  NodeStep make_step(size_t node, ir::Reuse& reuse, bool is_view, std::vector<ir::ValueId> drops,
                     const std::vector<c10::IValue>& resources);
  std::vector<bool> find_views() const;
  std::vector<std::vector<ir::ValueId>> find_drops(const ir::Reuse& reuse, const std::vector<bool>& is_view) const;
  void find_joinable();
  std::unique_ptr<RunFrame> take_frame(c10::ArrayRef<double> scalars) const;
  void give_back(std::unique_ptr<RunFrame> frame) const;
  static void run_step(const AtenStep& step, RunFrame& frame, RunMode mode) { step.run(frame, mode); }
  static void run_step(const FusedStep& step, RunFrame& frame, RunMode) { step.run(frame); }
  static void run_step(const ViewStep& step, RunFrame& frame, RunMode mode);
  static void run_step(const ScatterStep& step, RunFrame& frame, RunMode mode);
  static void run_step(const NoOpStep& step, RunFrame& frame, RunMode mode);
  void run_steps(RunFrame& frame, RunMode mode, std::vector<double>* seconds) const;
  void write_back(RunFrame& frame) const;

  std::shared_ptr<const ir::Graph> owner_;  // Keeps the graph alive.
  const ir::Graph& graph_;
  FrameLayout layout_;
  c10::DispatchKeySet keys_off_;
  std::vector<FusedOp> fused_ops_;
  std::vector<NodeStep> steps_;
  std::vector<bool> written_already_;
  std::unique_ptr<const FlatPlan> flat_;  // Runs instead of the steps, if the graph is small enough.
  mutable std::atomic<RunFrame*> spare_frame_{nullptr};
};

}  // namespace tenon::runtime
