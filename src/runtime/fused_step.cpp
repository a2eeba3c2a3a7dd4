#include "runtime/fused_step.h"

#include <algorithm>
#include <optional>

#include "bridge/convert.h"
#include "ir/graph/group.h"

namespace tenon::runtime {

using ir::kNoValue;
using ir::ValueId;

namespace {

// Libraries return a matrix; the graph may view it with more dimensions.
void set_sizes(const at::Tensor& matrix, const ir::FixedType& type) {
  if (matrix.dim() != static_cast<int64_t>(type.sizes.size())) matrix.unsafeGetTensorImpl()->set_sizes_contiguous(type.sizes);
}

}  // namespace

FusedStep::FusedStep(const ir::Node& node, const FusedOp& op, const FrameLayout& layout, std::vector<bool> in_place,
                     std::vector<ValueId> drops)
    : op_(op), layout_(layout), writes_(node.writes), in_place_(std::move(in_place)), drops_(std::move(drops)) {
  for (size_t k = 1; k < node.args.size(); ++k) reads_.push_back(std::get<ValueId>(node.args[k]));
  for (const ir::Result& result : node.results) makes_.push_back(result.ids[0]);
}

void FusedStep::run(RunFrame& frame) const {
  std::visit([&](const auto& call) { run_as(call, frame); }, op_.call);
}

std::vector<at::Tensor> FusedStep::inputs(RunFrame& frame) const {
  std::vector<at::Tensor> out;
  for (ValueId id : reads_) out.push_back(frame.tensor(id));
  return out;
}

void FusedStep::put_results(c10::ArrayRef<at::Tensor> outputs, RunFrame& frame) const {
  for (size_t i = 0; i < outputs.size(); ++i) frame.put(makes_[i], outputs[i]);
  for (ValueId id : drops_) frame.drop(id);
}

void FusedStep::run_as(const KernelCall& kernel, RunFrame& frame) const {
  c10::SmallVector<void*, 12> memory;
  for (ValueId id : reads_) memory.push_back(const_cast<void*>(frame.data(id)));
  for (ValueId id : makes_)
    memory.push_back(frame.is_in_arena(id) && writes_.empty() ? frame.bind_arena(id) : put_output(id, frame).mutable_data_ptr());
  if (op_.check || !kernel.ranges.empty()) run_checked(kernel, memory, frame);
  else runtime::run(kernel, memory, frame.scalars);
  for (ValueId id : drops_) frame.drop(id);
}

// Sets a kernel's result to a new buffer, or to that of the operand which it overwrites.
const at::Tensor& FusedStep::put_output(ValueId id, RunFrame& frame) const {
  at::Tensor out;
  for (size_t w = 0; w < writes_.size(); ++w)
    if (writes_[w].after == id && in_place_[w]) out = frame.tensor(writes_[w].before);
  frame.put(id, out.defined() ? std::move(out) : frame.output(id));
  return frame.tensor(id);
}

// Runs a kernel whose indices must be checked, or whose results are compared with ATen.
void FusedStep::run_checked(const KernelCall& kernel, c10::ArrayRef<void*> memory, RunFrame& frame) const {
  std::vector<at::Tensor> inputs, outputs;
  for (ValueId id : makes_) outputs.push_back(frame.tensor(id));
  for (ValueId id : reads_) {
    const at::Tensor& input = frame.tensor(id);
    bool is_overwritten =
        std::any_of(outputs.begin(), outputs.end(), [&](const at::Tensor& t) { return t.const_data_ptr() == input.const_data_ptr(); });
    inputs.push_back(is_overwritten ? bridge::copy_keeping_layout(input) : input);
  }
  if (are_in_range(kernel, inputs)) {
    runtime::run(kernel, memory, frame.scalars);
    if (op_.check) op_.check(inputs, outputs, frame.scalars);
  } else {
    std::vector<at::Tensor> results = kernel.by_aten(inputs, frame.scalars);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].copy_(results[i]);
  }
}

void FusedStep::run_as(const RewriteCall& rewrite, RunFrame& frame) const {
  std::vector<at::Tensor> inputs = this->inputs(frame);
  std::vector<at::Tensor> outputs = rewrite.run(inputs, frame.scalars);
  if (op_.check) op_.check(inputs, outputs, frame.scalars);
  put_results(outputs, frame);
}

void FusedStep::run_as(const ProductCall& call, RunFrame& frame) const {
  auto input = [&](size_t k) { return k < reads_.size() ? frame.tensor(reads_[k]) : at::Tensor(); };
  at::Tensor left = input(0), right = input(1), bias = input(2), buffer;
  if (!call.product->allocates_result(call.rows)) buffer = frame.output(makes_[0]);
  at::Tensor out = call.product->run({left, right, bias}, std::move(buffer));
  if (out.defined()) set_sizes(out, result_type());
  else out = call.by_aten({left, right, bias}, frame.scalars)[0];
  if (op_.check) {
    std::vector<at::Tensor> inputs = {left, right};
    if (bias.defined()) inputs.push_back(bias);
    op_.check(inputs, out, frame.scalars);
  }
  put_results(out, frame);
}

void FusedStep::run_as(const ConvolutionCall& call, RunFrame& frame) const {
  std::vector<at::Tensor> inputs = this->inputs(frame);
  std::optional<at::Tensor> result = call.convolution->run(inputs, frame.scalars);
  at::Tensor out = result ? *result : call.by_aten(inputs, frame.scalars)[0];
  if (out.strides() != c10::IntArrayRef(result_type().strides)) out = bridge::empty_of(result_type()).copy_(out);
  if (op_.check) op_.check(inputs, out, frame.scalars);
  put_results(out, frame);
}

ValueId FusedStep::joinable_operand() const {
  bool is_small = op_.product() && !op_.check && layout_.types[reads_[0]].sizes[0] <= ir::kMaxGemvRows;
  return is_small ? reads_[0] : kNoValue;
}

bool FusedStep::run_joined(c10::ArrayRef<const FusedStep*> steps, RunFrame& frame) {
  at::Tensor left = frame.tensor(steps[0]->reads_[0]);
  c10::SmallVector<at::Tensor, 4> rights, biases, outs;
  for (const FusedStep* step : steps) {
    rights.push_back(frame.tensor(step->reads_[1]));
    biases.push_back(step->reads_.size() > 2 ? frame.tensor(step->reads_[2]) : at::Tensor());
  }
  c10::SmallVector<ProductOperands, 4> operands;
  for (size_t i = 0; i < steps.size(); ++i) {
    operands.push_back({left, rights[i], biases[i]});
    if (!steps[i]->op_.product()->product->can_join(operands.back())) return false;
  }
  for (const FusedStep* step : steps) outs.push_back(frame.output(step->makes_[0]));
  ProductStep::run_joined(operands, outs);
  for (size_t i = 0; i < steps.size(); ++i) {
    set_sizes(outs[i], steps[i]->result_type());
    steps[i]->put_results(outs[i], frame);
  }
  return true;
}

}  // namespace tenon::runtime
