// A node `tenon::fused` of a graph: a kernel or a library call, with its operands.
#pragma once

#include <vector>

#include "ir/graph/graph.h"
#include "runtime/frame.h"
#include "runtime/fused_op.h"

namespace tenon::runtime {

class FusedStep {
 public:
  // `in_place` and `drops` are those of the node; `op` and `layout` must outlive the step.
  FusedStep(const ir::Node& node, const FusedOp& op, const FrameLayout& layout, std::vector<bool> in_place, std::vector<ir::ValueId> drops);

  void run(RunFrame& frame) const;
  const FusedOp& op() const { return op_; }

  // The left operand of a product that one parallel loop may compute together with others; otherwise kNoValue.
  ir::ValueId joinable_operand() const;
  // Runs products with the same left operand in one parallel loop. Returns false, without effect, if one of them cannot be part of it.
  static bool run_joined(c10::ArrayRef<const FusedStep*> steps, RunFrame& frame);

 private:
  void run_as(const KernelCall& kernel, RunFrame& frame) const;
  void run_as(const RewriteCall& rewrite, RunFrame& frame) const;
  void run_as(const ProductCall& call, RunFrame& frame) const;
  void run_as(const ConvolutionCall& call, RunFrame& frame) const;
  void run_checked(const KernelCall& kernel, c10::ArrayRef<void*> memory, RunFrame& frame) const;
  const at::Tensor& put_output(ir::ValueId id, RunFrame& frame) const;
  void put_results(c10::ArrayRef<at::Tensor> outputs, RunFrame& frame) const;
  std::vector<at::Tensor> inputs(RunFrame& frame) const;
  const ir::FixedType& result_type() const { return layout_.types[makes_[0]]; }

  const FusedOp& op_;
  const FrameLayout& layout_;
  std::vector<ir::ValueId> reads_, makes_;  // Operands and results.
  std::vector<ir::Node::Write> writes_;
  std::vector<bool> in_place_;
  std::vector<ir::ValueId> drops_;
};

}  // namespace tenon::runtime
