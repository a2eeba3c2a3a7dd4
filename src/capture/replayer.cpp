#include "capture/replayer.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/per_thread.h"
#include "bridge/access.h"
#include "bridge/convert.h"
#include "capture/dispatch_state.h"
#include "capture/faults.h"
#include "capture/index_check.h"
#include "capture/observed_tensor.h"
#include "capture/tensors.h"
#include "capture/withdrawn.h"

namespace tenon::capture {
namespace {

bool is_aten(const c10::OperatorHandle& op) { return op.operator_name().getNamespace() == "aten"; }

}  // namespace

Replayer::Replayer(std::shared_ptr<const StreamList> streams, RecordOptions options, OpRangeRunner runner,
                   std::function<void(Recorder&)> names)
    : streams_(std::move(streams)),
      options_(options),
      runner_(std::move(runner)),
      name_externals_(std::move(names)),
      thread_(this_thread()) {
  if (streams_->empty()) {
    recorder_ = std::make_unique<Recorder>(options_);
    name_externals_(*recorder_);
    return;
  }
  follow(streams_->front());
  ids_.reserve(storages_.size());
}

Replayer::Tables& Replayer::spare_tables() { return per_thread<Tables>(); }

Replayer::~Replayer() {
  storages_.clear();
  ids_.clear();
  for (auto* list : {&used_, &pending_, &newly_bound_}) list->clear();
  memory_.clear();
  memory_.scalars.clear();
  ranges_.clear();
  tables_.addresses.reset();
  spare_tables() = std::move(tables_);
}

void Replayer::observe_arguments(c10::ArrayRef<const at::Tensor*> tensors) {
  for (const at::Tensor* tensor : tensors) {
    c10::TensorImpl* impl = tensor->defined() ? tensor->unsafeGetTensorImpl() : nullptr;
    if (!impl || recorder_ || !is_plain(impl) || is_reserved(storage_of(impl)->data())) continue;
    observe(impl);
    if (bridge::arm(storage_of(impl))) arguments_.push_back(impl->unsafe_storage().getWeakStorageImpl());
  }
}

void Replayer::follow(const std::shared_ptr<const Stream>& stream) {
  if (stream_ == stream) return;
  stream_ = stream;
  storages_.resize(std::max(storages_.size(), stream->tape.storages.size()));
  memory_.scalars.resize(std::max(memory_.scalars.size(), stream->tape.scalars.size()));
  next_call_ = 0;
}

// ---- matching ----

bool Replayer::matches_tensor(const TensorRef& ref, const c10::TensorImpl* tensor) {
  const Geometry& g = ref.geometry;
  if (!is_plain(tensor) || tensor->is_wrapped_number() || tensor->dtype() != c10::scalarTypeToTypeMeta(g.dtype) ||
      tensor->sizes() != c10::IntArrayRef(g.sizes) || tensor->strides() != c10::IntArrayRef(g.strides))
    return false;
  c10::StorageImpl* storage = storage_of(tensor);
  CallStorage& state = storages_[ref.storage];
  int64_t away = (tensor->storage_offset() - g.offset) * static_cast<int64_t>(tensor->itemsize());
  if (state.impl) return state.impl == storage && state.shift == away;
  // The first use of this storage id. The storage must be new to this call, as it was to the recorded one.
  const TapeStorage& recorded = stream_->tape.storages[ref.storage];
  if (recorded.made_by >= 0 || storage->nbytes() < recorded.bytes || !bind_storage(ref.storage, tensor, away)) return false;
  if (recorded.written) observe(const_cast<c10::TensorImpl*>(tensor));
  newly_bound_.push_back(ref.storage);
  return true;
}

// Assigns the id to the tensor's storage. Returns false if the storage has another id already.
bool Replayer::bind_storage(int32_t id, const c10::TensorImpl* tensor, int64_t shift) {
  c10::StorageImpl* storage = storage_of(tensor);
  if (!ids_.insert(storage, id)) return false;
  CallStorage& state = storages_[id];
  state.impl = storage;
  state.weak = tensor->unsafe_storage().getWeakStorageImpl();
  state.shift = shift;
  seen_storages_.add(storage);
  for (auto [asked, access] : accessed_before_)
    if (asked == storage) (access == AccessKind::write ? state.mutable_pointer_given : state.const_pointer_given) = true;
  if (compares_ranges_) {
    add_range(id);
  } else if (is_foreign(storage)) {
    compares_ranges_ = true;
    for (size_t s = 0; s < storages_.size(); ++s)
      if (storages_[s].impl && !storages_[s].pending) add_range(static_cast<int32_t>(s));
  }
  return true;
}

// Ops that write memory that several storages cover are never deferred, so that they run in the program's order.
void Replayer::add_range(int32_t id) {
  CallStorage& state = storages_[id];
  if (state.weak.expired()) return;
  const void* memory = memory_of(state.impl);
  if (std::exchange(state.compared_address, memory) == memory) return;
  ranges_.add(memory, state.impl->nbytes(), id, [&](int32_t other) {
    CallStorage& there = storages_[other];
    if (other == id || !there.impl || there.weak.expired()) return;
    state.overlaps = there.overlaps = true;
    flush_soon_ |= state.used_by_deferred || there.used_by_deferred;
  });
}

void Replayer::flush_if_needed() {
  if (std::exchange(flush_soon_, false)) flush();
}

// A storage whose contents another replay still has to compute is not armed until they are computed.
void Replayer::arm(CallStorage& state) { state.armed = !is_reserved(state.impl->data()) && bridge::arm(state.impl); }

bool Replayer::matches_argument(const TapeArgument& expected, const c10::IValue& given, size_t* scalar) {
  if (const auto* ref = std::get_if<TensorRef>(&expected)) {
    if (!given.isTensor() || given.toTensor().defined() != ref->defined()) return false;
    return !ref->defined() || matches_tensor(*ref, given.unsafeToTensorImpl());
  }
  if (const auto* list = std::get_if<TensorListRef>(&expected)) {
    if (!given.isTensorList() && !given.isOptionalTensorList()) return false;
    auto items = given.toListRef();
    if (items.size() != list->items.size()) return false;
    for (size_t i = 0; i < items.size(); ++i) {
      bool defined = items[i].isTensor() && items[i].toTensor().defined();
      if (defined != list->items[i].defined()) return false;
      if (defined && !matches_tensor(list->items[i], items[i].unsafeToTensorImpl())) return false;
    }
    return true;
  }
  if (const auto* number = std::get_if<ir::NumberTensor>(&expected)) {
    if (!given.isTensor() || !given.toTensor().defined() || !given.toTensor().unsafeGetTensorImpl()->is_wrapped_number()) return false;
    ir::NumberTensor now = bridge::to_scalar_tensor(given.toTensor(), /*plain=*/false);
    if (!scalar || !std::holds_alternative<double>(number->number)) return same_scalar_tensor(*number, now);
    if (now.dtype != number->dtype || !std::holds_alternative<double>(now.number)) return false;
    memory_.scalars[(*scalar)++] = std::get<double>(now.number);
    return true;
  }
  const auto& constant = std::get<c10::IValue>(expected);
  if (scalar && constant.isDouble()) {
    if (!given.isDouble()) return false;
    memory_.scalars[(*scalar)++] = given.toDouble();
    return true;
  }
  return same_constant(constant, given);
}

bool Replayer::matches(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack) {
  size_t scalar = entry.before.scalars;
  return fits(entry, op, stack, [&](const TapeArgument& expected, const c10::IValue& given) {
    return matches_argument(expected, given, entry.free_scalars ? &scalar : nullptr);
  });
}

void Replayer::unbind_newly_bound() {
  for (int32_t storage : newly_bound_) {
    ids_.erase(storages_[storage].impl);
    storages_[storage] = CallStorage{};
  }
  newly_bound_.clear();
}

// Switches to another stream with the same prefix that continues with this op. Returns false if there is none.
bool Replayer::find_stream(const c10::OperatorHandle& op, const Stack& stack) {
  if (derived_) return false;
  std::shared_ptr<const Stream> current = stream_;
  for (const auto& other : *streams_) {
    if (other == current || shared_ops(*current, *other) < cursor_ || other->tape.ops.size() <= cursor_) continue;
    follow(other);
    if (matches(other->tape.ops[cursor_], op, stack)) return true;
  }
  follow(current);
  return false;
}

std::string Replayer::describe_difference(const TapeOp* entry, const c10::OperatorHandle& op, const Stack& stack) const {
  std::string at = "op " + std::to_string(cursor_) + ": ";
  if (!entry) return at + "the end became " + op_name(op);
  if (!(entry->op == op)) return at + op_name(entry->op) + " became " + op_name(op);
  const c10::IValue& given = stack[stack.size() - entry->args.size() + mismatched_argument_];
  std::string was = describe(entry->args[mismatched_argument_]), is = describe(given);
  return at + op_name(op) + ", argument " + std::to_string(mismatched_argument_) + ": " + was +
         (was == is ? " became another one" : " became " + is);
}

// Leaves the known streams: from here on the program's ops run and are recorded.
void Replayer::depart(const std::string& difference) {
  flush();
  difference_ = difference;
  if (!derived_) shared_ops_ = cursor_;
  if (!options_.may_record || !derivable_) {
    pass_through_ = true;
    release();
    if (options_.may_not_depart)
      throw UserError(ErrorCode::recompile, "the program departs from its recorded calls under fail_on_recompile: " + difference);
    return;
  }
  Tape tape = prefix(stream_->tape, cursor_, position_at(known().tape, cursor_));
  std::copy_n(memory_.scalars.begin(), tape.scalars.size(), tape.scalars.begin());
  std::erase_if(tape.user_calls, [&](const UserCall& call) {  // Their constants may differ from this call's.
    size_t begin = call.range.scalars_begin, count = call.range.scalars_end - begin;
    return count > 0 && std::memcmp(&tape.scalars[begin], &stream_->tape.scalars[begin], count * sizeof(double)) != 0;
  });
  std::unordered_map<const c10::StorageImpl*, int32_t> live;
  for (size_t s = 0; s < tape.storages.size(); ++s) {
    const CallStorage& state = storages_[s];
    if (!state.impl || state.weak.use_count() == 0) continue;
    live.emplace(state.impl, static_cast<int32_t>(s));
    tape.storages[s].weak = state.weak;
    tape.storages[s].shift = state.shift;
  }
  release();
  derived_.reset();
  if (!same_nodes_) options_.first_node = UINT64_MAX;  // The prefix does not say which ops created the nodes.
  recorder_ = std::make_unique<Recorder>(options_, std::move(tape), std::move(live));
  recorder_->continue_backward(std::exchange(running_backward_, std::nullopt));
  name_externals_(*recorder_);
}

// ---- deferring ----

void Replayer::on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (pass_through_) return inner_run(op, keys, stack);
  if (recorder_) return recorder_->on_op(op, keys, stack);
  std::unique_lock lock(mutex_);
  if (listening_is_paused()) {
    same_nodes_ = false;  // Nodes that are created while listening is paused are not on the stream.
    if (touches_deferred(op, *stack)) flush();
    lock.unlock();
    return inner_run(op, keys, stack);
  }
  const TapeOp* entry = expected();
  bool other_op = !entry || !(entry->op == op);
  if (other_op && is_composite(op)) {
    lock.unlock();
    return inner_decompose(op, keys, stack);
  }
  if (other_op || !(derived_ ? matches_except_sizes(*entry, op, *stack) : matches(*entry, op, *stack))) {
    size_t mismatch = mismatched_argument_;
    if (!find_stream(op, *stack) && !start_deriving(op, *stack)) {
      mismatched_argument_ = mismatch;
      depart(describe_difference(entry, op, *stack));
      lock.unlock();
      return on_op(op, keys, stack);
    }
    entry = expected();
  }
  same_nodes_ = same_nodes_ && entry->nodes == nodes_made() - options_.first_node;
  if (derived_) {
    const TapeOp* base = entry;
    entry = derive(*base, *stack);
    if (!entry) {
      depart("op " + std::to_string(cursor_) + ": " + op_name(op) + " returns another number of tensors");
      lock.unlock();
      return on_op(op, keys, stack);
    }
  }
  if (entry->immediate) return run_immediately(*entry, op, keys, stack, /*alone=*/false);
  if ((derived_ && !has_rule_.back()) || !can_defer(*entry) || (entry->takes_indices && !accepts_indices(*entry, *stack))) {
    flush();
    return run_immediately(*entry, op, keys, stack, /*alone=*/true);
  }
  defer(*entry, stack);
}

// An op is deferred only if every access to the memory that it writes would be announced. The memory that it reads must
// keep the contents of the moment of the call.
bool Replayer::can_defer(const TapeOp& entry) {
  flush_if_needed();
  bool wait = !std::exchange(out_of_addresses_, false);
  for_each_operand(entry.args, [&](const TensorRef& ref) {
    if (ref.defined()) wait &= is_observable(storages_[ref.storage]);
  });
  for (const TapeWrite& write : entry.writes) wait &= can_defer_writes(storages_[write.ref.storage]);
  return wait;
}

// Arms the storage. Returns false if accesses to it would not be announced.
bool Replayer::is_observable(CallStorage& state) {
  if (state.pending) return true;
  if (!state.armed) {
    // Another thread's replay still has to compute the contents; the announcement makes it flush.
    if (!state.is_withdrawn && is_reserved(state.impl->data())) {
      announce_to_others(state, AccessKind::read);
      if (is_reserved(state.impl->data())) return false;
    }
    state.armed = bridge::arm(state.impl);
  }
  bool changed = state.used_by_deferred && state.held >= 0 && held(state).snapshot &&
                 std::memcmp(held(state).snapshot.get(), memory_of(state.impl), state.impl->nbytes()) != 0;
  if (changed) flush();
  return state.armed;
}

bool Replayer::can_defer_writes(CallStorage& state) {
  if (state.pending || state.is_withdrawn) return true;
  // The host may read foreign memory through its own pointer.
  if (state.mutable_pointer_given || state.const_pointer_given || state.overlaps || is_foreign(state.impl) || !owns_memory(state))
    return false;
  if (other_replays_exist()) announce_to_others(state, AccessKind::write);
  find_pointer(state);
  return state.pointer && may_withdraw(*state.pointer);
}

void Replayer::find_pointer(CallStorage& state) {
  size_t id = static_cast<size_t>(&state - storages_.data());
  if (tables_.pointers.size() <= id) tables_.pointers.resize(storages_.size());
  state.pointer = find_withdrawable(state.impl, tables_.pointers[id]);
}

// Makes the replays of other threads flush their deferred ops on this storage. Two replays may announce to each other at the
// same time, so neither holds its lock meanwhile.
void Replayer::announce_to_others(const CallStorage& state, AccessKind access) {
  c10::intrusive_ptr<c10::StorageImpl> storage = state.weak.lock();
  if (!storage) return;
  mutex_.unlock();
  announce_access(storage.get(), access, this);
  mutex_.lock();
  // Another thread may have flushed this replay, and the flush may have failed.
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

bool Replayer::accepts_indices(const TapeOp& entry, const Stack& stack) {
  Unannounced own;
  for (int argument : index_arguments(entry.op)) {
    bool there = true;
    for_each_tensor(stack[stack.size() - entry.args.size() + argument], [&](const at::Tensor& index) {
      int32_t known = ids_.find(storage_of(index.unsafeGetTensorImpl()));
      there &= known >= 0 && !storages_[known].pending && !storages_[known].is_withdrawn;
    });
    if (!there) return true;
  }
  return indices_are_valid(entry.op, stack);
}

HeldMemory& Replayer::held(CallStorage& state) {
  if (state.held < 0) {
    state.held = static_cast<int32_t>(held_.size());
    held_.emplace_back();
  }
  return held_[state.held];
}

bool Replayer::owns_memory(const CallStorage& state) const {
  // The check was made before the pointer was withdrawn.
  return state.is_withdrawn || state.impl->nbytes() == 0 || state.impl->_mutable_data_ptr_no_checks().get_context() != nullptr;
}

void Replayer::hold_memory(int32_t storage) {
  CallStorage& state = storages_[storage];
  if (state.used_by_deferred) return;
  state.used_by_deferred = true;
  used_.push_back(storage);
  if (state.pending) return;
  HeldMemory& memory = held(state);
  memory.storage = c10::Storage(state.weak.lock());
  if (!state.mutable_pointer_given && owns_memory(state)) return;
  memory.snapshot = c10::GetCPUAllocator()->allocate(state.impl->nbytes());
  std::memcpy(memory.snapshot.get(), memory_of(state.impl), state.impl->nbytes());
}

void Replayer::withdraw_pointer(int32_t storage) {
  CallStorage& state = storages_[storage];
  state.written_by_deferred = true;
  if (state.pending || state.is_withdrawn) return;
  if (!handler_checked_) keep_fault_handler();
  handler_checked_ = true;
  if (!state.pointer) find_pointer(state);
  state.is_withdrawn = state.pointer && withdraw(*state.pointer);
  flush_soon_ |= !state.is_withdrawn;
}

at::Tensor Replayer::make_result(const TensorRef& ref, const Origin& origin, const Stack& stack, size_t first) {
  if (!ref.defined()) return {};
  CallStorage& state = storages_[ref.storage];
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
    c10::Storage storage;
    if (state.impl) {
      storage = c10::Storage(state.weak.lock());
    } else {
      size_t bytes = stream_->tape.storages[ref.storage].bytes;
      state.span = tables_.addresses.take(bytes);
      out_of_addresses_ |= !state.span;
      storage = make_placeholder(state.span.begin, bytes);
      state.impl = storage.unsafeGetStorageImpl();
      state.weak = storage.getWeakStorageImpl();
      state.pending = state.armed = true;
      seen_storages_.add(state.impl);
      ids_.insert(state.impl, ref.storage);
      pending_.push_back(ref.storage);
    }
    out = at::detail::make_tensor<ObservedTensor>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
  }
  int64_t shift = state.shift / static_cast<int64_t>(dtype.itemsize());
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
    if (ref.defined()) hold_memory(ref.storage);
  });
  for (const TapeWrite& write : entry.writes) withdraw_pointer(write.ref.storage);
  push_results(entry.results, entry.args.size(), stack);
  advance_to(cursor_ + 1);
}

// ---- running ops ----

void Replayer::bind(const TensorRef& ref, const at::Tensor& tensor) {
  if (!is_plain(tensor.unsafeGetTensorImpl())) return;
  CallStorage& state = storages_[ref.storage];
  if (state.impl) return;
  bind_storage(ref.storage, tensor.unsafeGetTensorImpl(),
               (tensor.storage_offset() - ref.geometry.offset) * static_cast<int64_t>(tensor.itemsize()));
}

// Returns whether a storage that is new to this call overlaps memory that deferred ops use.
bool Replayer::overlaps_deferred(const c10::StorageImpl* storage) const {
  if (!compares_ranges_ && !is_foreign(storage)) return false;
  const char* begin = static_cast<const char*>(memory_of(storage));
  for (int32_t id : used_) {
    const CallStorage& state = storages_[id];
    if (state.pending) continue;
    const char* other = static_cast<const char*>(memory_of(state.impl));
    if (other < begin + storage->nbytes() && begin < other + state.impl->nbytes()) return true;
  }
  return false;
}

// Returns whether an op that runs now reads memory that deferred ops write, or writes memory that they read.
bool Replayer::touches_deferred(const c10::OperatorHandle& op, const Stack& stack) const {
  const auto& parameters = op.schema().arguments();
  size_t first = stack.size() - parameters.size();
  bool touches = false;
  for (size_t i = 0; i < parameters.size(); ++i)
    for_each_tensor(stack[first + i], [&](const at::Tensor& tensor) {
      if (!has_memory(tensor.unsafeGetTensorImpl())) return;
      int32_t known = ids_.find(storage_of(tensor.unsafeGetTensorImpl()));
      if (known < 0) {
        touches |= overlaps_deferred(storage_of(tensor.unsafeGetTensorImpl()));
        return;
      }
      const CallStorage& state = storages_[known];
      touches |= (state.overlaps && deferred_ops_ > 0) || state.pending || state.is_withdrawn ||
                 (state.used_by_deferred && parameters[i].alias_info());
    });
  return touches;
}

void Replayer::run_immediately(const TapeOp& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack, bool alone) {
  if (touches_deferred(op, *stack)) flush();
  std::vector<int32_t> armed = disarm_operands(op, *stack);
  auto rearm = [&] {
    for (int32_t storage : armed) arm(storages_[storage]);
  };
  std::optional<Unannounced> quiet;  // A storage with a mark stays armed.
  if (!armed.empty()) quiet.emplace();
  std::optional<OwnAccess> own;
  if (is_aten(op)) own.emplace(this);
  LibraryCode reads(false);  // Reads are announced to other replays.
  mutex_.unlock();
  try {
    inner_run(op, keys, stack);
  } catch (...) {
    mutex_.lock();
    rearm();
    if (derived_) {
      derived_->tape.ops.pop_back();
      has_rule_.pop_back();
    }
    throw;
  }
  mutex_.lock();
  quiet.reset();
  rearm();
  record_real_results(*stack);
  for (size_t r = 0; r < entry.results.size(); ++r) {
    const TapeResult& result = entry.results[r];
    const c10::IValue& value = (*stack)[stack->size() - entry.results.size() + r];
    size_t i = 0;
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (i >= result.items.size()) return;
      const TensorRef& ref = result.items[i++];
      if (!ref.defined() || !has_memory(tensor.unsafeGetTensorImpl())) return;
      bind(ref, tensor);
      CallStorage& state = storages_[ref.storage];
      if (state.impl && !state.armed) arm(state);  // The host may request a pointer from now on.
    });
  }
  for (const TapeWrite& write : entry.writes)
    if (CallStorage& state = storages_[write.ref.storage]; state.impl) retire_copy(state.impl);
  ++cursor_;
  if (alone) flushed_ = cursor_;
}

void Replayer::flush() {
  if (flushing_) return;
  if (deferred_ops_ == 0) {
    flushed_ = cursor_;
    return;
  }
  flushing_ = true;
  ++counts_.flushes;
  Unannounced quiet;
  std::vector<int32_t> live;
  for (int32_t storage : pending_)
    if (storages_[storage].weak.use_count() > 0) live.push_back(storage);
  memory_.resize(storages_.size());
  for (int32_t storage : used_) {
    CallStorage& state = storages_[storage];
    if (state.pending) continue;
    const HeldMemory& memory = held(state);
    const void* begin = memory.snapshot      ? memory.snapshot.get()
                        : state.is_withdrawn ? withdrawn_memory(*state.pointer)
                                             : memory_of(state.impl);
    memory_.borrow(storage, begin, state.impl->nbytes(), state.shift, memory.snapshot ? nullptr : state.impl);
  }
  std::exception_ptr error;
  try {
    if (derived_ || !runner_ || !runner_({*stream_, flushed_, cursor_, live}, memory_)) {
      ++counts_.op_by_op;
      run_ops(stream_->tape, flushed_, cursor_, memory_);
    }
  } catch (...) {
    error = std::current_exception();
    pass_through_ = true;
  }
  materialize_results(live);
  flushing_ = false;
  if (error) std::rethrow_exception(error);
}

// Gives pending storages their contents and restores withdrawn pointers.
void Replayer::materialize_results(const std::vector<int32_t>& live) {
  for (int32_t storage : live) {
    CallStorage& state = storages_[storage];
    c10::intrusive_ptr<c10::StorageImpl> impl = state.weak.lock();
    if (!impl) continue;
    if (memory_.has(storage)) {
      impl->set_data_ptr_noswap(memory_.take(storage, impl->nbytes()));
    } else {  // An earlier op failed; in eager mode this storage would not exist.
      c10::DataPtr nothing = c10::GetCPUAllocator()->allocate(impl->nbytes());
      std::memset(nothing.get(), 0, impl->nbytes());
      impl->set_data_ptr_noswap(std::move(nothing));
    }
  }
  c10::SmallVector<Withdrawable*, 32> withdrawn;
  for (int32_t storage : used_) {
    CallStorage& state = storages_[storage];
    if (state.is_withdrawn) withdrawn.push_back(state.pointer);
    // No mark exists for pending contents.
    if (state.written_by_deferred && state.impl && !state.pending) bridge::invalidate_marks(state.impl);
    state.is_withdrawn = state.used_by_deferred = state.written_by_deferred = false;
    state.held = -1;
  }
  if (!withdrawn.empty()) restore(withdrawn);
  for (int32_t storage : pending_) storages_[storage].pending = false;
  pending_.clear();
  held_.clear();
  used_.clear();
  memory_.clear();
  flushed_ = cursor_;
  deferred_ops_ = 0;
}

void Replayer::on_access(c10::StorageImpl* storage, AccessKind access, pid_t thread) {
  if (!seen_storages_.may_contain(storage)) {
    if (thread == thread_ && !recorder_) accessed_before_.emplace_back(storage, access);
    return;
  }
  std::lock_guard lock(mutex_);
  int32_t known = ids_.find(storage);
  if (known < 0 && thread == thread_ && !recorder_) accessed_before_.emplace_back(storage, access);
  if (known < 0 || recorder_) return;
  CallStorage& state = storages_[known];
  bool elsewhere = thread != thread_;
  if (state.is_withdrawn && elsewhere) note_use_by_other_thread(storage);
  try {
    // Deferred ops that read the storage stay deferred while others read it too.
    bool is_pending = state.pending || state.is_withdrawn || (state.used_by_deferred && flush_soon_);
    bool is_read_later = state.used_by_deferred || (state.overlaps && deferred_ops_ > 0);
    if (is_pending || (is_read_later && access == AccessKind::write)) flush();
  } catch (...) {
    if (!elsewhere) throw;
    error_ = std::current_exception();  // The error belongs to the program's thread: its next op, or the end of the call, throws it.
  }
  if (access == AccessKind::write) {
    state.armed = false;  // libtorch has cleared the hook.
    state.mutable_pointer_given = true;
  } else {
    state.const_pointer_given = true;
  }
  if (compares_ranges_) add_range(known);  // The program may create another storage over it.
}

bool Replayer::on_fault(const char* address) {
  std::lock_guard lock(mutex_);
  for (CallStorage& state : storages_) {
    if (!state.span.contains(address)) continue;
    try {
      if (state.pending) flush();
    } catch (...) {
      error_ = std::current_exception();  // The fault handler cannot throw: the next op, or the end of the call, does.
    }
    auto impl = state.weak.lock();
    if (!impl) return false;
    state.copy_mapped = map_copy(state.span, impl->data());
    return state.copy_mapped;
  }
  return false;
}

// Disarms the operands of an ATen op. ATen's kernels request pointers but keep none, so these requests are not the program's.
std::vector<int32_t> Replayer::disarm_operands(const c10::OperatorHandle& op, const Stack& stack) {
  std::vector<int32_t> armed;
  if (!is_aten(op) || other_replays_exist()) return armed;
  for (size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i)
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      if (!has_memory(tensor.unsafeGetTensorImpl())) return;
      c10::StorageImpl* storage = storage_of(tensor.unsafeGetTensorImpl());
      int32_t known = ids_.find(storage);
      if (known < 0 && storage->has_materializer()) bridge::disarm(storage);  // An argument that no op has used yet.
      if (known < 0 || !storages_[known].armed) return;
      storages_[known].armed = false;
      bridge::disarm(storages_[known].impl);
      armed.push_back(known);
    });
  return armed;
}

void Replayer::release() {
  // A replay that begins meanwhile could rely on a hook that is about to be cleared.
  if_alone([&] {
    for (CallStorage& state : storages_)
      if (auto impl = state.armed ? state.weak.lock() : nullptr) bridge::disarm(impl.get());
    for (auto& argument : arguments_)
      if (auto impl = argument.lock()) bridge::disarm(impl.get());
  });
  arguments_.clear();
  for (CallStorage& state : storages_) state.armed = false;
}

void Replayer::end_stream() {
  flush();
  complete_ = cursor_ == known().tape.ops.size();
  if (derived_ && complete_) return;
  for (const auto& other : *streams_)
    if (!complete_ && !derived_ && shared_ops(*stream_, *other) >= cursor_ && other->tape.ops.size() == cursor_) {
      stream_ = other;
      complete_ = true;
    }
  if (!complete_) depart("it ended after " + std::to_string(cursor_) + " ops");
}

void Replayer::finish() {
  std::lock_guard lock(mutex_);
  std::exception_ptr error = std::exchange(error_, nullptr);
  try {
    if (!recorder_ && !pass_through_) end_stream();
    else if (!recorder_ && deferred_ops_ > 0) flush();  // An error occurred on another thread.
  } catch (...) {
    error = std::current_exception();
  }
  release();
  for (CallStorage& state : storages_)
    if (state.copy_mapped) unmap_copy(state.span);
  if (error) std::rethrow_exception(error);
}

}  // namespace tenon::capture
