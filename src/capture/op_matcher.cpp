#include "capture/op_matcher.h"

#include <c10/core/DefaultDtype.h>

#include "bridge/convert.h"
#include "capture/observed_tensor.h"
#include "capture/tensors.h"

namespace tenon::capture {
namespace {

// Compares a tensor or list argument; `same(ref, tensor)` compares one tensor.
template <class Same>
bool matches_tensors(const TapeArgument& expected, const c10::IValue& given, Same&& same) {
  if (const auto* ref = std::get_if<TensorRef>(&expected)) {
    if (!given.isTensor() || given.toTensor().defined() != ref->defined()) return false;
    return !ref->defined() || same(*ref, given.unsafeToTensorImpl());
  }
  const auto& list = std::get<TensorListRef>(expected);
  if (!given.isTensorList() && !given.isOptionalTensorList()) return false;
  auto items = given.toListRef();
  if (items.size() != list.items.size()) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    bool defined = items[i].isTensor() && items[i].toTensor().defined();
    if (defined != list.items[i].defined()) return false;
    if (defined && !same(list.items[i], items[i].unsafeToTensorImpl())) return false;
  }
  return true;
}

bool has_tensors(const TapeArgument& argument) {
  return std::holds_alternative<TensorRef>(argument) || std::holds_alternative<TensorListRef>(argument);
}

bool same_requires_grad(const TapeArgument& expected, const c10::IValue& given) {
  bool same = true;
  if (const auto* ref = std::get_if<TensorRef>(&expected)) {
    if (ref->defined()) same = ref->requires_grad == given.toTensor().requires_grad();
  } else if (const auto* list = std::get_if<TensorListRef>(&expected)) {
    for (size_t i = 0; i < list->items.size(); ++i)
      if (list->items[i].defined()) same &= list->items[i].requires_grad == given.toListRef()[i].toTensor().requires_grad();
  }
  return same;
}

}  // namespace

bool OpMatcher::matches_tensor(const TensorRef& ref, const c10::TensorImpl* tensor) {
  const Geometry& g = ref.geometry;
  if (!is_plain(tensor) || tensor->is_wrapped_number() || tensor->dtype() != c10::scalarTypeToTypeMeta(g.dtype) ||
      tensor->sizes() != c10::IntArrayRef(g.sizes) || tensor->strides() != c10::IntArrayRef(g.strides))
    return false;
  c10::StorageImpl* impl = storage_of(tensor);
  const CallStorage& storage = storages_[ref.storage];
  int64_t shift = (tensor->storage_offset() - g.offset) * static_cast<int64_t>(tensor->itemsize());
  if (storage.impl) return storage.impl == impl && storage.shift == shift;
  // The first use of this storage id. The storage must be new to this call, as it was to the recorded one.
  const TapeStorage& recorded = tape_->storages[ref.storage];
  if (recorded.made_by >= 0 || impl->nbytes() < recorded.bytes || !storages_.bind_in_match(ref.storage, tensor, shift)) return false;
  if (recorded.written) observe(const_cast<c10::TensorImpl*>(tensor));
  return true;
}

bool OpMatcher::matches_tensor_except_sizes(const TensorRef& ref, const c10::TensorImpl* tensor) {
  if (!is_plain(tensor) || tensor->is_wrapped_number() || tensor->dtype() != c10::scalarTypeToTypeMeta(ref.geometry.dtype)) return false;
  const CallStorage& storage = storages_[ref.storage];
  if (storage.impl) return storage.impl == storage_of(tensor);
  const TapeStorage& recorded = tape_->storages[ref.storage];
  if (recorded.made_by >= 0 || !storages_.bind_in_match(ref.storage, tensor, /*shift=*/0)) return false;
  if (recorded.written) observe(const_cast<c10::TensorImpl*>(tensor));
  return true;
}

bool OpMatcher::matches_argument(const TapeArgument& expected, const c10::IValue& given, size_t* scalar) {
  if (has_tensors(expected))
    return matches_tensors(expected, given,
                           [&](const TensorRef& ref, const c10::TensorImpl* tensor) { return matches_tensor(ref, tensor); });
  if (const auto* number = std::get_if<ir::ScalarTensor>(&expected)) {
    if (!given.isTensor() || !given.toTensor().defined() || !given.toTensor().unsafeGetTensorImpl()->is_wrapped_number()) return false;
    ir::ScalarTensor now = bridge::to_scalar_tensor(given.toTensor(), /*plain=*/false);
    if (!scalar || !std::holds_alternative<double>(number->number)) return same_scalar_tensor(*number, now);
    if (now.dtype != number->dtype || !std::holds_alternative<double>(now.number)) return false;
    scalars_[(*scalar)++] = std::get<double>(now.number);
    return true;
  }
  const auto& constant = std::get<c10::IValue>(expected);
  if (scalar && constant.isDouble()) {
    if (!given.isDouble()) return false;
    scalars_[(*scalar)++] = given.toDouble();
    return true;
  }
  return same_constant(constant, given);
}

bool OpMatcher::matches_argument_except_sizes(const TapeArgument& expected, const c10::IValue& given, size_t* scalar) {
  if (has_tensors(expected))
    return matches_tensors(expected, given,
                           [&](const TensorRef& ref, const c10::TensorImpl* tensor) { return matches_tensor_except_sizes(ref, tensor); });
  if (const auto* value = std::get_if<c10::IValue>(&expected))
    if ((value->isInt() && given.isInt()) || (value->isIntList() && given.isIntList())) return true;
  // An integer that ATen wrapped into a tensor may be a size: the mean's backward divides by the number of elements.
  if (const auto* number = std::get_if<ir::ScalarTensor>(&expected); number && std::holds_alternative<ir::Size>(number->number)) {
    if (!given.isTensor() || !given.toTensor().defined() || !given.toTensor().unsafeGetTensorImpl()->is_wrapped_number()) return false;
    ir::ScalarTensor now = bridge::to_scalar_tensor(given.toTensor(), /*plain=*/false);
    return now.dtype == number->dtype && std::holds_alternative<ir::Size>(now.number);
  }
  return matches_argument(expected, given, scalar);
}

template <class Same>
bool OpMatcher::matches_arguments(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack, Same&& same) {
  if (!(entry.op == op)) return false;
  storages_.start_match();
  if (entry.immediate) return true;  // The op runs anyway, whatever its operands are.
  if (entry.default_dtype != c10::get_default_dtype_as_scalartype()) return false;
  size_t first = stack.size() - entry.args.size();
  bool match = true;
  for (size_t i = 0; i < entry.args.size() && match; ++i) {
    mismatched_argument_ = i;
    match = same(entry.args[i], stack[first + i]);
  }
  // The offset argument of as_strided counts from the start of the storage.
  if (match && entry.absolute_offset) match = storages_[std::get<TensorRef>(entry.args[0]).storage].shift == 0;
  if (!match) storages_.undo_match();
  return match;
}

bool OpMatcher::matches(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack) {
  size_t scalar = entry.before.scalars;
  return matches_arguments(entry, op, stack, [&](const TapeArgument& expected, const c10::IValue& given) {
    return matches_argument(expected, given, entry.free_scalars ? &scalar : nullptr);
  });
}

bool OpMatcher::matches_except_sizes(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack) {
  size_t scalar = entry.before.scalars;
  return matches_arguments(entry, op, stack, [&](const TapeArgument& expected, const c10::IValue& given) {
    return matches_argument_except_sizes(expected, given, entry.free_scalars ? &scalar : nullptr);
  });
}

bool OpMatcher::matches_call(const UserCall& call, const Stack& stack) {
  storages_.start_match();
  size_t first = stack.size() - call.args.size();
  for (size_t i = 0; i < call.args.size(); ++i)
    if (!matches_argument(call.args[i], stack[first + i], nullptr) || !same_requires_grad(call.args[i], stack[first + i])) {
      storages_.undo_match();
      return false;
    }
  return true;
}

bool OpMatcher::matches_backward_inputs(const Backward& backward, const std::vector<at::Tensor>& gradients, const BackwardGraph& graph) {
  storages_.start_match();
  auto same = [&](const TensorRef& ref, const at::Tensor& tensor) {
    return tensor.defined() == ref.defined() && (!tensor.defined() || matches_tensor(ref, tensor.unsafeGetTensorImpl()));
  };
  bool match = true;
  for (size_t i = 0; i < backward.gradients.size() && match; ++i) match = same(backward.gradients[i], gradients[i]);
  for (size_t i = 0; i < backward.leaves.size() && match; ++i)
    match = same(backward.leaves[i].before, graph.leaves[i].grad()) &&
            !(graph.leaves[i].grad().defined() && graph.leaves[i].grad().is_inference());
  for (size_t i = 0; i < backward.saved.size() && match; ++i)
    match = !backward.saved[i].defined() || same(backward.saved[i], graph.saved[i]);
  if (!match) storages_.undo_match();
  return match;
}

}  // namespace tenon::capture
