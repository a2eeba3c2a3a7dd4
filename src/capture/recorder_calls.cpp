// Recording of user calls and of whole backward passes, each of which comprises many ops.
#include <utility>

#include "capture/backward_event.h"
#include "capture/deferrable_range.h"
#include "capture/dispatch_state.h"
#include "capture/recorder.h"
#include "capture/tensors.h"

namespace tenon::capture {

bool Recorder::is_known(const at::Tensor& tensor) const { return is_plain(tensor.unsafeGetTensorImpl()) && storage_id(tensor) >= 0; }

// ---- user calls ----

// Returns false if the call depends on more than its arguments.
bool Recorder::record_call(UserCall& call, const Stack& stack, size_t first) {
  const auto& parameters = call.op.schema().arguments();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const c10::IValue& value = stack[first + i];
    bool plain = true;
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      plain &= is_plain(tensor.unsafeGetTensorImpl()) && !has_tangent(tensor) &&
               (value.isTensor() || !tensor.unsafeGetTensorImpl()->is_wrapped_number());
    });
    if (!plain) return false;
    call.args.push_back(record_argument(value));
    if (!parameters[i].alias_info() || !parameters[i].alias_info()->isWrite()) continue;
    if (call.written >= 0 || !value.isTensor() || !value.toTensor().defined()) return false;
    call.written = static_cast<int32_t>(i);
    if (!value.toTensor().is_inference()) call.bumps = -value.toTensor()._version();
  }
  return true;
}

// Returns false if a result has properties that a placeholder cannot have.
bool Recorder::record_call_results(UserCall& call, const Stack& stack, const std::vector<const c10::TensorImpl*>& operands) {
  size_t returns = call.op.schema().returns().size();
  for (size_t i = stack.size() - returns; i < stack.size(); ++i) {
    if (!stack[i].isTensor() && !stack[i].isTensorList()) return false;
    TapeResult result{.is_list = stack[i].isTensorList()};
    bool good = true;
    auto note = [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !is_known(tensor)) return false;
      int32_t storage = storage_id(tensor);
      Origin origin = origin_of(tensor, call.args, operands, storage);
      origin.view = !origin.same && tensor.is_view();
      // A replay can only recreate views of the first operand, not detach() or unsafe views.
      if (origin.view && origin.argument != 0) return false;
      if (origin.argument >= 0 && !origin.same && !origin.view && !tensor.is_inference()) return false;
      result.items.push_back({storage, geometry_on_tape(tensor, storage), tensor.requires_grad()});
      result.origins.push_back(origin);
      return origin.same || origin.view || !tensor.requires_grad();
    };
    if (result.is_list)
      for (const c10::IValue& item : stack[i].toListRef()) good = good && note(item.toTensor());
    else good = note(stack[i].toTensor());
    if (!good) return false;
    call.results.push_back(std::move(result));
  }
  return true;
}

void Recorder::on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  ++tape_.calls;
  UserCall call{op};
  call.dispatch_state = current_dispatch_state();
  size_t first = stack->size() - op.schema().arguments().size(), begin = tape_.ops.size();
  // After this op, tensors may carry tangents, which the recorded arguments do not contain.
  if (op.operator_name().name == "aten::_make_dual") options_.record_calls = false;
  if (!options_.record_calls || listening_is_paused() || !can_record_calls(call.dispatch_state) || !record_call(call, *stack, first))
    return outer_run(op, keys, stack);
  auto operands = operand_objects(call.args, *stack, first);
  at::Tensor written = call.written >= 0 ? (*stack)[first + call.written].toTensor() : at::Tensor();
  outer_run(op, keys, stack);
  if (tape_.ops.size() == begin || !record_call_results(call, *stack, operands)) return;
  if (written.defined() && !written.is_inference()) call.bumps += written._version();
  auto range = deferrable_range(tape_, begin, tape_.ops.size(), {});
  for (size_t i = begin; i < tape_.ops.size(); ++i)
    if (tape_.ops[i].takes_indices) return;  // Indices are checked op by op.
  if (!range) return;
  call.range = std::move(*range);
  tape_.user_calls.push_back(std::move(call));
}

// ---- backward passes ----

bool Recorder::on_backward(const BackwardCall& call) {
  running_backward_.reset();
  if (auto graph = graph_of(call, options_)) running_backward_ = start_of(call, std::move(*graph), tape_.ops.size());
  return false;
}

void Recorder::after_backward() {
  auto start = std::exchange(running_backward_, std::nullopt);
  if (!start) return;
  auto find = [&](const c10::StorageImpl* storage) -> std::optional<StorageOnTape> {
    auto it = storages_.find(storage);
    if (it == storages_.end()) return std::nullopt;
    return StorageOnTape{it->second, tape_.storages[it->second].shift};
  };
  if (auto event = describe_backward(std::move(*start), tape_, find)) tape_.backwards.push_back(std::move(*event));
}

}  // namespace tenon::capture
