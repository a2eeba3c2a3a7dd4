// Deferring: whether an op can be deferred, and the placeholders that replace its results.
#include "bridge/access.h"
#include "capture/index_check.h"
#include "capture/observed_tensor.h"
#include "capture/replayer.h"
#include "capture/tensors.h"

namespace tenon::capture {

// An op is deferred only if every access to the memory that it writes would be announced. The memory that it reads must
// keep the contents of the moment of the call.
bool Replayer::can_defer(const TapeOp& entry) {
  if (storages_.take_needs_flush()) flush();
  bool can = !std::exchange(out_of_addresses_, false);
  for_each_operand(entry.args, [&](const TensorRef& ref) {
    if (ref.defined()) can &= is_observable(storages_[ref.storage]);
  });
  for (const TapeWrite& write : entry.writes) can &= can_defer_writes(storages_[write.ref.storage]);
  return can;
}

// Arms the storage. Returns false if accesses to it would not be announced.
bool Replayer::is_observable(CallStorage& storage) {
  if (storage.pending) return true;
  if (!storage.armed) {
    // Another thread's replay still has to compute the contents; the announcement makes it flush.
    if (!storage.is_withdrawn && is_reserved(storage.impl->data())) {
      announce_to_others(storage, AccessKind::read);
      if (is_reserved(storage.impl->data())) return false;
    }
    storage.armed = bridge::arm(storage.impl);
  }
  if (storages_.has_changed(storage)) flush();
  return storage.armed;
}

bool Replayer::can_defer_writes(CallStorage& storage) {
  if (storage.pending || storage.is_withdrawn) return true;
  // The host may read foreign memory through its own pointer.
  if (storage.mutable_pointer_given || storage.const_pointer_given || storage.overlaps || is_foreign(storage.impl) ||
      !StorageTable::owns_memory(storage))
    return false;
  if (other_replays_exist()) announce_to_others(storage, AccessKind::write);
  storages_.find_pointer(storage);
  return storage.pointer && may_withdraw(*storage.pointer);
}

// Makes the replays of other threads flush their deferred ops on this storage. Two replays may announce to each other at the
// same time, so neither holds its lock meanwhile.
void Replayer::announce_to_others(const CallStorage& storage, AccessKind access) {
  c10::intrusive_ptr<c10::StorageImpl> impl = storage.weak.lock();
  if (!impl) return;
  mutex_.unlock();
  announce_access(impl.get(), access, this);
  mutex_.lock();
  // Another thread may have flushed this replay, and the flush may have failed.
  throw_postponed_error();
}

// Whether pending indices are those of an arange from 0 that ends at or below the limit. Indices that were computed otherwise from the
// integers of a stream that is being derived may be out of range.
bool Replayer::counts_up_below(std::optional<int64_t> limit, const c10::IValue& index) const {
  if (!limit || !index.isTensor()) return false;
  const Tape& tape = derived_->tape;
  int32_t id = storages_.find(storage_of(index.toTensor().unsafeGetTensorImpl()));
  if (id < 0 || tape.storages[id].made_by < 0 || tape.storages[id].written) return false;
  const TapeOp& made_by = tape.ops[static_cast<size_t>(tape.storages[id].made_by)];
  const auto* end = std::get_if<c10::IValue>(&made_by.args[0]);
  return op_name(made_by.op) == "aten::arange" && end && end->isInt() && end->toInt() <= *limit;
}

bool Replayer::accepts_indices(const TapeOp& entry, const Stack& stack) {
  Unannounced own;
  for (int argument : index_arguments(entry.op)) {
    bool has_contents = true;
    for_each_tensor(stack[stack.size() - entry.args.size() + argument], [&](const at::Tensor& index) {
      int32_t id = storages_.find(storage_of(index.unsafeGetTensorImpl()));
      has_contents &= id >= 0 && !storages_[id].pending && !storages_[id].is_withdrawn;
    });
    if (!has_contents)
      return !is_deriving() || counts_up_below(index_limit(entry.op, stack), stack[stack.size() - entry.args.size() + argument]);
  }
  return indices_are_valid(entry.op, stack);
}

at::Tensor Replayer::make_result(const TensorRef& ref, const Origin& origin, const Stack& stack, size_t first) {
  if (!ref.defined()) return {};
  CallStorage& storage = storages_[ref.storage];
  const Geometry& g = ref.geometry;
  auto dtype = c10::scalarTypeToTypeMeta(g.dtype);
  at::Tensor out, base;
  if (origin.argument >= 0) {
    const c10::IValue& operand = stack[first + origin.argument];
    base = operand.isTensor() ? operand.toTensor() : operand.toListRef()[origin.item].toTensor();
    if (origin.same) return base;
    out = at::detail::make_tensor<ObservedTensor>(c10::TensorImpl::VIEW, c10::Storage(base.unsafeGetTensorImpl()->unsafe_storage()),
                                                  base.key_set(), dtype);
  } else {
    c10::Storage memory;
    if (storage.impl) {
      memory = c10::Storage(storage.weak.lock());
    } else {
      size_t bytes = stream_->tape.storages[ref.storage].bytes;
      AddressSpan span = buffers_.addresses.take(bytes);
      out_of_addresses_ |= !span;
      memory = make_placeholder(span.begin, bytes);
      storages_.bind_placeholder(ref.storage, memory, span);
    }
    out = at::detail::make_tensor<ObservedTensor>(std::move(memory), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
  }
  int64_t shift = storage.shift / static_cast<int64_t>(dtype.itemsize());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(g.sizes, g.strides, g.offset + shift);
  return origin.view ? as_view(base, std::move(out)) : out;
}

// Replaces the arguments on the stack by the results.
void Replayer::push_results(const std::vector<TapeResult>& expected, size_t arguments, Stack* stack) {
  size_t first = stack->size() - arguments;
  c10::SmallVector<c10::IValue, 3> results;
  for (const TapeResult& result : expected) {
    if (!result.is_list) {
      results.emplace_back(make_result(result.items[0], result.origins[0], *stack, first));
      continue;
    }
    c10::List<at::Tensor> list;
    list.reserve(result.items.size());
    for (size_t i = 0; i < result.items.size(); ++i) list.push_back(make_result(result.items[i], result.origins[i], *stack, first));
    results.emplace_back(std::move(list));
  }
  stack->resize(first);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

// Advances the cursor; the ops in between are deferred.
void Replayer::advance_to(size_t op) {
  if (deferred_ops_ == 0) flushed_ = cursor_;  // Immediate ops may precede it.
  deferred_ops_ += op - cursor_;
  counts_.replayed += op - cursor_;
  cursor_ = op;
}

void Replayer::defer(const TapeOp& entry, Stack* stack) {
  for_each_operand(entry.args, [&](const TensorRef& ref) {
    if (ref.defined()) storages_.hold(ref.storage);
  });
  for (const TapeWrite& write : entry.writes) storages_.withdraw_pointer(write.ref.storage);
  push_results(entry.results, entry.args.size(), stack);
  advance_to(cursor_ + 1);
}

}  // namespace tenon::capture
