// A node of a graph that ATen computes.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <variant>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"
#include "runtime/frame.h"
#include "runtime/run_mode.h"

namespace tenon::runtime {

class AtenStep {
 public:
  // `in_place` has one element per write of the node: whether it writes to its operand, not to a copy. `drops` are the values that
  // die at the node; they are moved into the call where `may_move` allows it.
  AtenStep(const ir::Node& node, const FrameLayout& layout, const std::vector<c10::IValue>& resources, std::vector<bool> in_place,
           const std::vector<ir::ValueId>& drops, bool may_move);

  void run(RunFrame& frame, RunMode mode) const;

 private:
  struct Operand {
    ir::ValueId id = ir::kNoValue;
    bool is_moved = false;  // The value dies here and is moved out of the frame.
  };
  struct TensorList {
    std::vector<Operand> operands;
    bool is_optional = false;  // A list of optional tensors.
  };
  // A constant, a scalar of the graph as a number or as a 0-d tensor, a tensor, or a list of tensors.
  using StepArgument = std::variant<c10::IValue, ir::Scalar, ir::ScalarTensor, Operand, TensorList>;

  static StepArgument make_argument(const ir::Argument& argument, const c10::Argument& parameter, const std::vector<c10::IValue>& resources,
                                    const ir::SymbolValues& symbols);
  Operand* last_use(ir::ValueId id);
  void push(const StepArgument& argument, RunFrame& frame) const;
  void put_copy(ir::ValueId id, const at::Tensor& copy, torch::jit::Stack& stack) const;
  void put_results(RunFrame& frame) const;
  void put_result(RunFrame& frame, ir::ValueId id, at::Tensor tensor) const;

  ir::ValueId out_;  // The only result of an op with an `out=` overload, if it has a given buffer; otherwise kNoValue.
  c10::OperatorHandle op_;
  std::vector<StepArgument> args_;
  std::vector<ir::Result> results_;
  std::vector<ir::Node::Write> writes_;
  std::vector<bool> in_place_;
  std::vector<ir::ValueId> drops_;   // Values that die here and are not moved.
  bool calls_cpu_directly_ = false;  // The op has a kernel at the CPU dispatch key.
};

}  // namespace tenon::runtime
