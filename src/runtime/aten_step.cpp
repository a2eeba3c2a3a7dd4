#include "runtime/aten_step.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "bridge/convert.h"

namespace tenon::runtime {

using ir::kNoValue;
using ir::ValueId;

namespace {

// The result for which the arena has a buffer, so that the op's `out=` overload is called; otherwise kNoValue.
ValueId buffered_result(const ir::Node& node, const FrameLayout& layout) {
  if (node.results.empty() || node.results[0].is_list || node.results[0].ids[0] == kNoValue) return kNoValue;
  ValueId first = node.results[0].ids[0];
  bool is_host = std::count(layout.arena.hosts.begin(), layout.arena.hosts.end(), first) > 0;
  return is_host || layout.arena.locations[first].host != ir::Arena::kOwn ? first : kNoValue;
}

// Whether the elements have the type's dtype and distances. Types with expanded dimensions, which gradients may take over from their
// operands, say nothing about distances.
bool is_laid_out(const at::Tensor& tensor, const ir::FixedType& type) {
  if (tensor.scalar_type() != bridge::from_dtype(type.dtype)) return false;
  bool is_same = true;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (type.sizes[d] <= 1) continue;
    if (type.strides[d] == 0) return true;
    is_same &= tensor.stride(static_cast<int64_t>(d)) == type.strides[d];
  }
  return is_same || tensor.numel() == 0;
}

}  // namespace

AtenStep::AtenStep(const ir::Node& node, const FrameLayout& layout, const std::vector<c10::IValue>& resources, std::vector<bool> in_place,
                   const std::vector<ValueId>& drops, bool may_move)
    : out_(buffered_result(node, layout)),
      op_(bridge::find_op(out_ == kNoValue ? node.op : node.op + ".out")),
      results_(node.results),
      writes_(node.writes),
      in_place_(std::move(in_place)),
      calls_cpu_directly_(op_.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
  const auto& parameters = op_.schema().arguments();
  if (parameters.size() != node.args.size() + (out_ != kNoValue))
    throw UserError(ErrorCode::verify, node.op + " takes " + std::to_string(parameters.size()) + " arguments, the graph gives " +
                                           std::to_string(node.args.size()));
  for (size_t k = 0; k < node.args.size(); ++k) args_.push_back(make_argument(node.args[k], parameters[k], resources, layout.symbols));
  // A node with writes reads its operands from the frame again after the call.
  for (ValueId id : drops) {
    Operand* last = may_move && writes_.empty() ? last_use(id) : nullptr;
    if (last) last->is_moved = true;
    else drops_.push_back(id);
  }
}

AtenStep::StepArgument AtenStep::make_argument(const ir::Argument& argument, const c10::Argument& parameter,
                                               const std::vector<c10::IValue>& resources, const ir::SymbolValues& symbols) {
  if (const auto* id = std::get_if<ValueId>(&argument)) return Operand{*id};
  if (const auto* list = std::get_if<ir::ValueList>(&argument)) {
    TensorList out{.is_optional = parameter.type()->str().find('?') != std::string::npos};
    for (ValueId id : list->ids) out.operands.push_back({id});
    return out;
  }
  const auto& attribute = std::get<ir::Attribute>(argument);
  if (const auto* scalar = std::get_if<ir::Scalar>(&attribute)) return *scalar;
  if (ir::scalar_in(argument) != ir::kNoScalar) return std::get<ir::ScalarTensor>(attribute);
  return bridge::from_attribute(attribute, *parameter.type(), resources, symbols);
}

// The last operand that is this value; null if none is.
AtenStep::Operand* AtenStep::last_use(ValueId id) {
  Operand* last = nullptr;
  for (StepArgument& argument : args_) {
    if (auto* operand = std::get_if<Operand>(&argument); operand && operand->id == id) last = operand;
    if (auto* list = std::get_if<TensorList>(&argument))
      for (Operand& operand : list->operands)
        if (operand.id == id) last = &operand;
  }
  return last;
}

void AtenStep::push(const StepArgument& argument, RunFrame& frame) const {
  torch::jit::Stack& stack = frame.stack;
  auto take = [&](const Operand& operand) -> at::Tensor {
    if (operand.id == kNoValue) return {};
    return operand.is_moved ? frame.take(operand.id) : frame.tensor(operand.id);
  };
  if (const auto* operand = std::get_if<Operand>(&argument)) {
    stack.emplace_back(take(*operand));
  } else if (const auto* constant = std::get_if<c10::IValue>(&argument)) {
    stack.push_back(*constant);
  } else if (const auto* scalar = std::get_if<ir::Scalar>(&argument)) {
    stack.emplace_back(frame.scalars[scalar->index]);
  } else if (const auto* scalar_tensor = std::get_if<ir::ScalarTensor>(&argument)) {
    ir::ScalarTensor tensor = *scalar_tensor;
    tensor.number = frame.scalars[std::get<ir::Scalar>(scalar_tensor->number).index];
    stack.emplace_back(bridge::from_scalar_tensor(tensor));
  } else if (const auto& list = std::get<TensorList>(argument); list.is_optional) {
    c10::List<std::optional<at::Tensor>> tensors;
    tensors.reserve(list.operands.size());
    for (const Operand& operand : list.operands) {
      if (operand.id == kNoValue) tensors.push_back(std::nullopt);
      else tensors.push_back(take(operand));
    }
    stack.emplace_back(std::move(tensors));
  } else {
    c10::List<at::Tensor> tensors;
    tensors.reserve(list.operands.size());
    for (const Operand& operand : list.operands) tensors.push_back(take(operand));
    stack.emplace_back(std::move(tensors));
  }
}

// Replaces all occurrences of the operand, since in the program they are one tensor.
void AtenStep::put_copy(ValueId id, const at::Tensor& copy, torch::jit::Stack& stack) const {
  for (size_t k = 0; k < args_.size(); ++k) {
    if (const auto* operand = std::get_if<Operand>(&args_[k]); operand && operand->id == id) stack[k] = copy;
    const auto* list = std::get_if<TensorList>(&args_[k]);
    if (!list || list->is_optional) continue;
    for (size_t i = 0; i < list->operands.size(); ++i)
      if (list->operands[i].id == id) stack[k].toTensorList().set(i, copy);
  }
}

void AtenStep::run(RunFrame& frame, RunMode mode) const {
  torch::jit::Stack& stack = frame.stack;
  stack.clear();
  for (const StepArgument& argument : args_) push(argument, frame);
  c10::SmallVector<at::Tensor, 2> written;
  for (size_t i = 0; i < writes_.size(); ++i) {
    at::Tensor target = frame.tensor(writes_[i].before);
    if (!in_place_[i]) {
      target = bridge::copy_keeping_layout(target);
      put_copy(writes_[i].before, target, stack);
    }
    written.push_back(std::move(target));
  }
  if (out_ != kNoValue) stack.emplace_back(frame.output(out_));
  if (mode == RunMode::kernels && calls_cpu_directly_) op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  else op_.callBoxed(&stack);
  put_results(frame);
  for (size_t i = 0; i < writes_.size(); ++i) frame.put(writes_[i].after, std::move(written[i]));
  for (ValueId id : drops_) frame.drop(id);
}

void AtenStep::put_results(RunFrame& frame) const {
  torch::jit::Stack& stack = frame.stack;
  for (size_t r = 0; r < results_.size(); ++r) {
    const ir::Result& result = results_[r];
    if (!result.is_list) {
      if (result.ids[0] != kNoValue) put_result(frame, result.ids[0], std::move(stack[r]).toTensor());
      continue;
    }
    auto list = stack[r].toTensorVector();
    if (list.size() != result.ids.size())
      throw InternalError(c10::toString(op_.operator_name()) + " returned " + std::to_string(list.size()) + " tensors instead of " +
                          std::to_string(result.ids.size()));
    for (size_t k = 0; k < list.size(); ++k)
      if (result.ids[k] != kNoValue) put_result(frame, result.ids[k], std::move(list[k]));
  }
}

// Kernels read a value as its type says. In a graph that another frontend has recorded, a shape function gave the type, and some of them
// promise another dtype or other strides than their ops return.
void AtenStep::put_result(RunFrame& frame, ValueId id, at::Tensor tensor) const {
  const ir::FixedType& type = frame.type(id);
  if (tensor.defined() && tensor.sizes() != type.sizes)
    throw InternalError(c10::toString(op_.operator_name()) + " returned a tensor of size " + c10::str(tensor.sizes()) + " instead of " +
                        c10::str(c10::IntArrayRef(type.sizes)));
  if (tensor.defined() && !is_laid_out(tensor, type)) tensor = bridge::empty_of(type).copy_(tensor);
  frame.put(id, std::move(tensor));
}

}  // namespace tenon::runtime
