#include "capture/replayer.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/per_thread.h"
#include "bridge/access.h"
#include "bridge/convert.h"
#include "capture/extents.h"
#include "capture/faults.h"
#include "capture/index_check.h"
#include "capture/observed_tensor.h"
#include "capture/tensors.h"
#include "capture/withdrawn.h"

namespace tenon::capture {
namespace {

bool is_aten(const c10::OperatorHandle& op) { return op.operator_name().getNamespace() == "aten"; }

}  // namespace

Replayer::Replayer(std::shared_ptr<const StreamList> streams, RecordOptions options, StretchRunner runner,
                   std::function<void(Recorder&)> names)
    : streams_(std::move(streams)), options_(options), runner_(std::move(runner)), names_(std::move(names)), thread_(this_thread()) {
  if (streams_->empty()) {
    recorder_ = std::make_unique<Recorder>(options_);
    names_(*recorder_);
    return;
  }
  follow(streams_->front());
  numbers_.reserve(slots_.size());
}

Replayer::Tables& Replayer::spare_tables() { return per_thread<Tables>(); }

Replayer::~Replayer() {
  slots_.clear();
  numbers_.clear();
  for (auto* list : {&waiting_, &owed_, &bound_now_}) list->clear();
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
  slots_.resize(std::max(slots_.size(), stream->tape.storages.size()));
  memory_.scalars.resize(std::max(memory_.scalars.size(), stream->tape.scalars.size()));
  next_call_ = 0;
}

// ---- comparing ----

bool Replayer::matches_tensor(const TensorRef& ref, const c10::TensorImpl* tensor) {
  const Geometry& g = ref.geometry;
  if (!is_plain(tensor) || tensor->is_wrapped_number() || tensor->dtype() != c10::scalarTypeToTypeMeta(g.dtype) ||
      tensor->sizes() != c10::IntArrayRef(g.sizes) || tensor->strides() != c10::IntArrayRef(g.strides))
    return false;
  c10::StorageImpl* storage = storage_of(tensor);
  Slot& slot = slots_[ref.storage];
  int64_t away = (tensor->storage_offset() - g.offset) * static_cast<int64_t>(tensor->itemsize());
  if (slot.impl) return slot.impl == storage && slot.moved == away;
  // Met for the first time. It must be new to this call if it was new to the recorded one.
  const TapeStorage& recorded = stream_->tape.storages[ref.storage];
  if (recorded.born >= 0 || storage->nbytes() < recorded.bytes || !attach(ref.storage, tensor, away)) return false;
  if (recorded.written) observe(const_cast<c10::TensorImpl*>(tensor));
  bound_now_.push_back(ref.storage);
  return true;
}

// This is the storage of that number in this call. False if it has another number already.
bool Replayer::attach(int32_t number, const c10::TensorImpl* tensor, int64_t moved) {
  c10::StorageImpl* storage = storage_of(tensor);
  if (!numbers_.insert(storage, number)) return false;
  Slot& slot = slots_[number];
  slot.impl = storage;
  slot.weak = tensor->unsafe_storage().getWeakStorageImpl();
  slot.moved = moved;
  met_.add(storage);
  for (auto [asked, access] : asked_before_)
    if (asked == storage) (access == Access::write ? slot.handed_out : slot.read_out) = true;
  if (knows_ranges_) {
    add_range(number);
  } else if (is_foreign(storage)) {
    knows_ranges_ = true;
    for (size_t s = 0; s < slots_.size(); ++s)
      if (slots_[s].impl && !slots_[s].owed) add_range(static_cast<int32_t>(s));
  }
  return true;
}

// Ops that write memory that lies under several storages never wait, so that their order is the program's.
void Replayer::add_range(int32_t number) {
  Slot& slot = slots_[number];
  if (slot.weak.expired()) return;
  const void* memory = memory_of(slot.impl);
  if (std::exchange(slot.range, memory) == memory) return;
  ranges_.add(memory, slot.impl->nbytes(), number, [&](int32_t other) {
    Slot& there = slots_[other];
    if (other == number || !there.impl || there.weak.expired()) return;
    slot.overlaps = there.overlaps = true;
    flush_soon_ |= slot.waiting || there.waiting;
  });
}

void Replayer::flush_if_needed() {
  if (std::exchange(flush_soon_, false)) flush();
}

// A storage whose contents another replay still has to compute is left alone until that is done.
void Replayer::arm(Slot& slot) { slot.armed = !is_reserved(slot.impl->data()) && bridge::arm(slot.impl); }

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
    ir::NumberTensor now = bridge::number_of(given.toTensor(), /*plain=*/false);
    if (!scalar || !std::holds_alternative<double>(number->number)) return same_number(*number, now);
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

void Replayer::unbind_new() {
  for (int32_t storage : bound_now_) {
    numbers_.erase(slots_[storage].impl);
    slots_[storage] = Slot{};
  }
  bound_now_.clear();
}

// Another stream that did the same up to here and goes on like this.
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

std::string Replayer::tell_difference(const TapeOp* entry, const c10::OperatorHandle& op, const Stack& stack) const {
  std::string at = "op " + std::to_string(cursor_) + ": ";
  if (!entry) return at + "the end became " + op_name(op);
  if (!(entry->op == op)) return at + op_name(entry->op) + " became " + op_name(op);
  const c10::IValue& given = stack[stack.size() - entry->args.size() + mismatch_];
  std::string was = describe(entry->args[mismatch_]), is = describe(given);
  return at + op_name(op) + ", argument " + std::to_string(mismatch_) + ": " + was + (was == is ? " became another one" : " became " + is);
}

// From here on the program runs for real and is recorded.
void Replayer::depart(const std::string& difference) {
  flush();
  difference_ = difference;
  if (!derived_) shared_ = cursor_;
  if (!options_.may_record || !derivable_) {
    pass_through_ = true;
    release();
    if (options_.may_not_depart)
      throw UserError(ErrorCode::recompile, "the program does something that is not recorded, under fail_on_recompile: " + difference);
    return;
  }
  Tape tape = prefix(stream_->tape, cursor_, mark_at(known().tape, cursor_));
  std::copy_n(memory_.scalars.begin(), tape.scalars.size(), tape.scalars.begin());
  std::erase_if(tape.user_calls, [&](const UserCall& call) {  // their constants are those of another run
    size_t begin = call.extent.scalars_begin, count = call.extent.scalars_end - begin;
    return count > 0 && std::memcmp(&tape.scalars[begin], &stream_->tape.scalars[begin], count * sizeof(double)) != 0;
  });
  std::unordered_map<const c10::StorageImpl*, int32_t> live;
  for (size_t s = 0; s < tape.storages.size(); ++s) {
    const Slot& slot = slots_[s];
    if (!slot.impl || slot.weak.use_count() == 0) continue;
    live.emplace(slot.impl, static_cast<int32_t>(s));
    tape.storages[s].weak = slot.weak;
    tape.storages[s].moved = slot.moved;
  }
  release();
  derived_.reset();
  if (!same_nodes_) options_.first_node = UINT64_MAX;  // the tape's first part does not tell what made the nodes
  recorder_ = std::make_unique<Recorder>(options_, std::move(tape), std::move(live));
  recorder_->go_on_with(std::exchange(running_, std::nullopt));
  names_(*recorder_);
}

// ---- waiting ----

void Replayer::on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (pass_through_) return inner_run(op, keys, stack);
  if (recorder_) return recorder_->on_op(op, keys, stack);
  std::unique_lock lock(mutex_);
  if (listening_is_paused()) {
    same_nodes_ = false;  // what is done here is not on the stream
    if (touches_waiting(op, *stack)) flush();
    lock.unlock();
    return inner_run(op, keys, stack);
  }
  const TapeOp* entry = expected();
  bool other_op = !entry || !(entry->op == op);
  if (other_op && is_composite(op)) {
    lock.unlock();
    return inner_decompose(op, keys, stack);
  }
  if (other_op || !(derived_ ? resembles(*entry, op, *stack) : matches(*entry, op, *stack))) {
    size_t mismatch = mismatch_;
    if (!find_stream(op, *stack) && !start_deriving(op, *stack)) {
      mismatch_ = mismatch;
      depart(tell_difference(entry, op, *stack));
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
  if (entry->immediate) return run_now(*entry, op, keys, stack, /*alone=*/false);
  if ((derived_ && !has_rule_.back()) || !can_wait(*entry) || (entry->takes_indices && !index_is_good(*entry, *stack))) {
    flush();
    return run_now(*entry, op, keys, stack, /*alone=*/true);
  }
  defer(*entry, stack);
}

// Memory that others may change or look at behind our back cannot have ops waiting to write it,
// and what is read from it must be what it held when the op was called.
bool Replayer::can_wait(const TapeOp& entry) {
  flush_if_needed();
  bool wait = !std::exchange(out_of_addresses_, false);
  for_each_operand(entry.args, [&](const TensorRef& ref) {
    if (ref.defined()) wait &= is_ready(slots_[ref.storage]);
  });
  for (const TapeWrite& write : entry.writes) wait &= may_be_written_later(slots_[write.ref.storage]);
  return wait;
}

// False if nobody would tell when somebody looks at it.
bool Replayer::is_ready(Slot& slot) {
  if (slot.owed) return true;
  if (!slot.armed) {
    // Contents that another thread's replay still has to compute. From then on that replay announces what it does.
    if (!slot.is_withdrawn && is_reserved(slot.impl->data())) {
      announce_to_others(slot, Access::read);
      if (is_reserved(slot.impl->data())) return false;
    }
    slot.armed = bridge::arm(slot.impl);
  }
  bool changed = slot.waiting && slot.real >= 0 && real(slot).snapshot &&
                 std::memcmp(real(slot).snapshot.get(), memory_of(slot.impl), slot.impl->nbytes()) != 0;
  if (changed) flush();
  return slot.armed;
}

bool Replayer::may_be_written_later(Slot& slot) {
  if (slot.owed || slot.is_withdrawn) return true;
  // The host may read foreign memory without asking for a pointer.
  if (slot.handed_out || slot.read_out || slot.overlaps || is_foreign(slot.impl) || !owns_memory(slot)) return false;
  if (other_replays_exist()) announce_to_others(slot, Access::write);
  find_pointer(slot);
  return slot.pointer && may_withdraw(*slot.pointer);
}

void Replayer::find_pointer(Slot& slot) {
  size_t number = static_cast<size_t>(&slot - slots_.data());
  if (tables_.pointers.size() <= number) tables_.pointers.resize(slots_.size());
  slot.pointer = find_withdrawable(slot.impl, tables_.pointers[number]);
}

// Replays of other threads run what waits for this storage. Two replays may tell each other at once, so neither
// keeps its lock meanwhile.
void Replayer::announce_to_others(const Slot& slot, Access access) {
  c10::intrusive_ptr<c10::StorageImpl> storage = slot.weak.lock();
  if (!storage) return;
  mutex_.unlock();
  announce_access(storage.get(), access, this);
  mutex_.lock();
  // Another thread may have run what waited, and failed.
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

bool Replayer::index_is_good(const TapeOp& entry, const Stack& stack) {
  Unannounced own;
  for (int argument : index_arguments(entry.op)) {
    bool there = true;
    for_each_tensor(stack[stack.size() - entry.args.size() + argument], [&](const at::Tensor& index) {
      int32_t known = numbers_.find(storage_of(index.unsafeGetTensorImpl()));
      there &= known >= 0 && !slots_[known].owed && !slots_[known].is_withdrawn;
    });
    if (!there) return true;
  }
  return indices_are_good(entry.op, stack);
}

RealMemory& Replayer::real(Slot& slot) {
  if (slot.real < 0) {
    slot.real = static_cast<int32_t>(real_.size());
    real_.emplace_back();
  }
  return real_[slot.real];
}

bool Replayer::owns_memory(const Slot& slot) const {
  // A withdrawn pointer was found to be owned before.
  return slot.is_withdrawn || slot.impl->nbytes() == 0 || slot.impl->_mutable_data_ptr_no_checks().get_context() != nullptr;
}

void Replayer::hold(int32_t storage) {
  Slot& slot = slots_[storage];
  if (slot.waiting) return;
  slot.waiting = true;
  waiting_.push_back(storage);
  if (slot.owed) return;
  RealMemory& memory = real(slot);
  memory.held = c10::Storage(slot.weak.lock());
  if (!slot.handed_out && owns_memory(slot)) return;
  memory.snapshot = c10::GetCPUAllocator()->allocate(slot.impl->nbytes());
  std::memcpy(memory.snapshot.get(), memory_of(slot.impl), slot.impl->nbytes());
}

void Replayer::withdraw_pointer(int32_t storage) {
  Slot& slot = slots_[storage];
  slot.written = true;
  if (slot.owed || slot.is_withdrawn) return;
  if (!keeps_handler_) keep_fault_handler();
  keeps_handler_ = true;
  if (!slot.pointer) find_pointer(slot);
  slot.is_withdrawn = slot.pointer && withdraw(*slot.pointer);
  flush_soon_ |= !slot.is_withdrawn;
}

at::Tensor Replayer::make_result(const TensorRef& ref, const Origin& origin, const Stack& stack, size_t first) {
  if (!ref.defined()) return {};
  Slot& slot = slots_[ref.storage];
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
    if (slot.impl) {
      storage = c10::Storage(slot.weak.lock());
    } else {
      size_t bytes = stream_->tape.storages[ref.storage].bytes;
      slot.span = tables_.addresses.take(bytes);
      out_of_addresses_ |= !slot.span;
      storage = make_placeholder(slot.span.begin, bytes);
      slot.impl = storage.unsafeGetStorageImpl();
      slot.weak = storage.getWeakStorageImpl();
      slot.owed = slot.armed = true;
      met_.add(slot.impl);
      numbers_.insert(slot.impl, ref.storage);
      owed_.push_back(ref.storage);
    }
    out = at::detail::make_tensor<ObservedTensor>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
  }
  int64_t moved = slot.moved / static_cast<int64_t>(dtype.itemsize());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(g.sizes, g.strides, g.offset + moved);
  return origin.view ? as_view(base, std::move(out)) : out;
}

// Takes the arguments of a call from the stack and leaves its results there.
void Replayer::leave_results(const std::vector<TapeResult>& expected, size_t arguments, Stack* stack) {
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

// The ops up to this one have been met.
void Replayer::wait_until(size_t op) {
  if (waiting_ops_ == 0) done_ = cursor_;  // ops that ran at once may lie before it
  waiting_ops_ += op - cursor_;
  counts_.replayed += op - cursor_;
  cursor_ = op;
}

void Replayer::defer(const TapeOp& entry, Stack* stack) {
  for_each_operand(entry.args, [&](const TensorRef& ref) {
    if (ref.defined()) hold(ref.storage);
  });
  for (const TapeWrite& write : entry.writes) withdraw_pointer(write.ref.storage);
  leave_results(entry.results, entry.args.size(), stack);
  wait_until(cursor_ + 1);
}

// ---- running ----

void Replayer::bind(const TensorRef& ref, const at::Tensor& tensor) {
  if (!is_plain(tensor.unsafeGetTensorImpl())) return;
  Slot& slot = slots_[ref.storage];
  if (slot.impl) return;
  attach(ref.storage, tensor.unsafeGetTensorImpl(),
         (tensor.storage_offset() - ref.geometry.offset) * static_cast<int64_t>(tensor.itemsize()));
}

// A storage that this call has not met, over memory that ops wait for.
bool Replayer::overlaps_waiting(const c10::StorageImpl* storage) const {
  if (!knows_ranges_ && !is_foreign(storage)) return false;
  const char* begin = static_cast<const char*>(memory_of(storage));
  for (int32_t number : waiting_) {
    const Slot& slot = slots_[number];
    if (slot.owed) continue;
    const char* other = static_cast<const char*>(memory_of(slot.impl));
    if (other < begin + storage->nbytes() && begin < other + slot.impl->nbytes()) return true;
  }
  return false;
}

// Does an op that runs now need what others wait to write, or write what they wait to read?
bool Replayer::touches_waiting(const c10::OperatorHandle& op, const Stack& stack) const {
  const auto& parameters = op.schema().arguments();
  size_t first = stack.size() - parameters.size();
  bool touches = false;
  for (size_t i = 0; i < parameters.size(); ++i)
    for_each_tensor(stack[first + i], [&](const at::Tensor& tensor) {
      if (!has_memory(tensor.unsafeGetTensorImpl())) return;
      int32_t known = numbers_.find(storage_of(tensor.unsafeGetTensorImpl()));
      if (known < 0) {
        touches |= overlaps_waiting(storage_of(tensor.unsafeGetTensorImpl()));
        return;
      }
      const Slot& slot = slots_[known];
      touches |= (slot.overlaps && waiting_ops_ > 0) || slot.owed || slot.is_withdrawn || (slot.waiting && parameters[i].alias_info());
    });
  return touches;
}

void Replayer::run_now(const TapeOp& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack, bool alone) {
  if (touches_waiting(op, *stack)) flush();
  std::vector<int32_t> armed = disarm_operands(op, *stack);
  auto rearm = [&] {
    for (int32_t storage : armed) arm(slots_[storage]);
  };
  std::optional<Unannounced> quiet;  // for what a mark keeps armed
  if (!armed.empty()) quiet.emplace();
  std::optional<OwnAccess> own;
  if (is_aten(op)) own.emplace(this);
  LibraryCode reads(false);  // other replays are to know
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
  note_real_results(*stack);
  for (size_t r = 0; r < entry.results.size(); ++r) {
    const TapeResult& result = entry.results[r];
    const c10::IValue& value = (*stack)[stack->size() - entry.results.size() + r];
    size_t i = 0;
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (i >= result.items.size()) return;
      const TensorRef& ref = result.items[i++];
      if (!ref.defined() || !has_memory(tensor.unsafeGetTensorImpl())) return;
      bind(ref, tensor);
      observe(tensor.unsafeGetTensorImpl());  // ops that wait may write it: `empty_like(x).copy_(y)`
      Slot& slot = slots_[ref.storage];
      if (slot.impl && !slot.armed) arm(slot);  // the host may ask for a pointer from now on
    });
  }
  for (const TapeWrite& write : entry.writes)
    if (Slot& slot = slots_[write.ref.storage]; slot.impl) retire_copy(slot.impl);
  ++cursor_;
  if (alone) done_ = cursor_;
}

void Replayer::flush() {
  if (flushing_) return;
  if (waiting_ops_ == 0) {
    done_ = cursor_;
    return;
  }
  flushing_ = true;
  ++counts_.flushes;
  Unannounced quiet;
  std::vector<int32_t> live;
  for (int32_t storage : owed_)
    if (slots_[storage].weak.use_count() > 0) live.push_back(storage);
  memory_.resize(slots_.size());
  for (int32_t storage : waiting_) {
    Slot& slot = slots_[storage];
    if (slot.owed) continue;
    const RealMemory& memory = real(slot);
    const void* begin = memory.snapshot     ? memory.snapshot.get()
                        : slot.is_withdrawn ? withdrawn_memory(*slot.pointer)
                                            : memory_of(slot.impl);
    memory_.lend(storage, begin, slot.impl->nbytes(), slot.moved, memory.snapshot ? nullptr : slot.impl);
  }
  std::exception_ptr error;
  try {
    if (derived_ || !runner_ || !runner_({*stream_, done_, cursor_, live}, memory_)) {
      ++counts_.op_by_op;
      run_ops(stream_->tape, done_, cursor_, memory_);
    }
  } catch (...) {
    error = std::current_exception();
    pass_through_ = true;
  }
  settle(live);
  flushing_ = false;
  if (error) std::rethrow_exception(error);
}

// Fills what is owed and shows what was hidden.
void Replayer::settle(const std::vector<int32_t>& live) {
  for (int32_t storage : live) {
    Slot& slot = slots_[storage];
    c10::intrusive_ptr<c10::StorageImpl> impl = slot.weak.lock();
    if (!impl) continue;
    if (memory_.has(storage)) {
      impl->set_data_ptr_noswap(memory_.take(storage, impl->nbytes()));
    } else {  // an op before it failed; in the program it would not exist
      c10::DataPtr nothing = c10::GetCPUAllocator()->allocate(impl->nbytes());
      std::memset(nothing.get(), 0, impl->nbytes());
      impl->set_data_ptr_noswap(std::move(nothing));
    }
  }
  c10::SmallVector<Withdrawable*, 32> withdrawn;
  for (int32_t storage : waiting_) {
    Slot& slot = slots_[storage];
    if (slot.is_withdrawn) withdrawn.push_back(slot.pointer);
    if (slot.written && slot.impl && !slot.owed) bridge::change(slot.impl);  // nobody has seen contents that were owed
    slot.is_withdrawn = slot.waiting = slot.written = false;
    slot.real = -1;
  }
  if (!withdrawn.empty()) restore(withdrawn);
  for (int32_t storage : owed_) slots_[storage].owed = false;
  owed_.clear();
  real_.clear();
  waiting_.clear();
  memory_.clear();
  done_ = cursor_;
  waiting_ops_ = 0;
}

void Replayer::on_access(c10::StorageImpl* storage, Access access, pid_t thread) {
  if (!met_.may_contain(storage)) {
    if (thread == thread_ && !recorder_) asked_before_.emplace_back(storage, access);
    return;
  }
  std::lock_guard lock(mutex_);
  int32_t known = numbers_.find(storage);
  if (known < 0 && thread == thread_ && !recorder_) asked_before_.emplace_back(storage, access);
  if (known < 0 || recorder_) return;
  Slot& slot = slots_[known];
  bool elsewhere = thread != thread_;
  if (slot.is_withdrawn && elsewhere) note_use_by_other_thread(storage);
  try {
    // What waits to read it may go on waiting while others read it too.
    bool is_pending = slot.owed || slot.is_withdrawn || (slot.waiting && flush_soon_);
    bool is_read_later = slot.waiting || (slot.overlaps && waiting_ops_ > 0);
    if (is_pending || (is_read_later && access == Access::write)) flush();
  } catch (...) {
    if (!elsewhere) throw;
    error_ = std::current_exception();  // it is not the other thread's: the next op, or the end of the call, throws
  }
  if (access == Access::write) {
    slot.armed = false;  // libtorch clears the hook
    slot.handed_out = true;
  } else {
    slot.read_out = true;
  }
  if (knows_ranges_) add_range(known);  // the program may make another storage over it
}

bool Replayer::on_fault(const char* address) {
  std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    if (!slot.span.contains(address)) continue;
    try {
      if (slot.owed) flush();
    } catch (...) {
      error_ = std::current_exception();  // a signal handler cannot throw: the next op, or the end, does
    }
    auto impl = slot.weak.lock();
    if (!impl) return false;
    slot.shown = map_copy(slot.span, impl->data());
    return slot.shown;
  }
  return false;
}

// ATen's kernels ask for pointers and keep none; that is not the program's doing.
std::vector<int32_t> Replayer::disarm_operands(const c10::OperatorHandle& op, const Stack& stack) {
  std::vector<int32_t> armed;
  if (!is_aten(op) || other_replays_exist()) return armed;
  for (size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i)
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      if (!has_memory(tensor.unsafeGetTensorImpl())) return;
      c10::StorageImpl* storage = storage_of(tensor.unsafeGetTensorImpl());
      int32_t known = numbers_.find(storage);
      if (known < 0 && storage->has_materializer()) bridge::disarm(storage);  // an argument that no op has met yet
      if (known < 0 || !slots_[known].armed) return;
      slots_[known].armed = false;
      bridge::disarm(slots_[known].impl);
      armed.push_back(known);
    });
  return armed;
}

void Replayer::release() {
  // A replay that begins meanwhile could count on a hook that is about to go.
  if_alone([&] {
    for (Slot& slot : slots_)
      if (auto impl = slot.armed ? slot.weak.lock() : nullptr) bridge::disarm(impl.get());
    for (auto& argument : arguments_)
      if (auto impl = argument.lock()) bridge::disarm(impl.get());
  });
  arguments_.clear();
  for (Slot& slot : slots_) slot.armed = false;
}

void Replayer::end_stream() {
  flush();
  whole_ = cursor_ == known().tape.ops.size();
  if (derived_ && whole_) return;
  for (const auto& other : *streams_)
    if (!whole_ && !derived_ && shared_ops(*stream_, *other) >= cursor_ && other->tape.ops.size() == cursor_) {
      stream_ = other;
      whole_ = true;
    }
  if (!whole_) depart("it ended after " + std::to_string(cursor_) + " ops");
}

void Replayer::finish() {
  std::lock_guard lock(mutex_);
  std::exception_ptr error = std::exchange(error_, nullptr);
  try {
    if (!recorder_ && !pass_through_) end_stream();
    else if (!recorder_ && waiting_ops_ > 0) flush();  // after an error that another thread met
  } catch (...) {
    error = std::current_exception();
  }
  release();
  for (Slot& slot : slots_)
    if (slot.shown) unmap_copy(slot.span);
  if (error) std::rethrow_exception(error);
}

}  // namespace tenon::capture
