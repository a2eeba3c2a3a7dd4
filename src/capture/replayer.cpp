#include "capture/replayer.h"

#include <c10/core/CPUAllocator.h>

#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "bridge/convert.h"
#include "capture/index_check.h"
#include "capture/shapes.h"

namespace tenon::capture {
namespace {

// Tensors with one of these are not plain memory on the CPU.
constexpr c10::DispatchKeySet kOdd({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor,
                                    c10::DispatchKey::Python, c10::DispatchKey::Sparse, c10::DispatchKey::SparseCsr,
                                    c10::DispatchKey::Quantized, c10::DispatchKey::MkldnnCPU});

c10::StorageImpl* storage_of(const c10::TensorImpl* tensor) { return tensor->unsafe_storage().unsafeGetStorageImpl(); }

bool is_plain(const c10::TensorImpl* tensor) {
  c10::DispatchKeySet keys = tensor->key_set();
  return (keys & kOdd).empty() && keys.has_backend(c10::BackendComponent::CPUBit) && tensor->has_storage();
}

template <class F>
void for_each_operand(const TapeOp& op, F&& f) {
  for (const TapeArgument& arg : op.args) {
    if (const auto* ref = std::get_if<TensorRef>(&arg)) {
      if (ref->defined()) f(*ref);
    } else if (const auto* list = std::get_if<TensorListRef>(&arg)) {
      for (const TensorRef& item : list->items)
        if (item.defined()) f(item);
    }
  }
}

template <class F>
void for_each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) f(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& item : value.toListRef())
      if (item.isTensor() && item.toTensor().defined()) f(item.toTensor());
  }
}

}  // namespace

Replayer::Replayer(std::shared_ptr<const StreamList> streams, RecordOptions options, StretchRunner runner,
                   std::function<void(Recorder&)> names)
    : streams_(std::move(streams)), options_(options), runner_(std::move(runner)), names_(std::move(names)) {
  if (streams_->empty()) {
    recorder_ = std::make_unique<Recorder>(options_);
    names_(*recorder_);
    return;
  }
  stream_ = streams_->front();
  slots_.resize(stream_->tape.storages.size());
  numbers_.reserve(slots_.size());
  memory_.scalars.resize(stream_->tape.scalars.size());
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
  if (recorded.born >= 0 || storage->nbytes() < recorded.bytes || !numbers_.insert(storage, ref.storage)) return false;
  slot.impl = storage;
  slot.weak = tensor->unsafe_storage().getWeakStorageImpl();
  slot.moved = away;
  bound_now_.push_back(ref.storage);
  return true;
}

bool Replayer::matches_argument(const TapeOp& entry, const TapeArgument& expected, const c10::IValue& given, size_t& scalar) {
  if (const auto* ref = std::get_if<TensorRef>(&expected)) {
    if (!given.isTensor()) return false;
    const c10::TensorImpl* tensor = given.unsafeToTensorImpl();
    if (!ref->defined()) return !given.toTensor().defined();
    return given.toTensor().defined() && matches_tensor(*ref, tensor);
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
    if (!free_scalar(entry, expected)) return same_number(*number, now);
    if (now.dtype != number->dtype || !std::holds_alternative<double>(now.number)) return false;
    memory_.scalars[scalar++] = std::get<double>(now.number);
    return true;
  }
  const auto& constant = std::get<c10::IValue>(expected);
  if (entry.free_scalars && constant.isDouble()) {
    if (!given.isDouble()) return false;
    memory_.scalars[scalar++] = given.toDouble();
    return true;
  }
  return same_constant(constant, given);
}

bool Replayer::matches(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack) {
  if (!(entry.op == op)) return false;
  if (entry.immediate) return true;  // runs for real, whatever its operands are
  if (entry.default_dtype != c10::get_default_dtype_as_scalartype()) return false;
  bound_now_.clear();
  size_t first = stack.size() - entry.args.size(), scalar = entry.before.scalars;
  for (size_t i = 0; i < entry.args.size(); ++i)
    if (!matches_argument(entry, entry.args[i], stack[first + i], scalar)) {
      mismatch_ = i;
      unbind_new();
      return false;
    }
  // An offset that the op states itself counts from the start of the storage.
  if (entry.absolute_offset && slots_[std::get<TensorRef>(entry.args[0]).storage].moved != 0) {
    unbind_new();
    return false;
  }
  return true;
}

void Replayer::unbind_new() {
  for (int32_t storage : bound_now_) {
    numbers_.erase(slots_[storage].impl);
    slots_[storage] = Slot{};
  }
  bound_now_.clear();
}

// ---- other sizes ----

Geometry Replayer::place_of(const at::Tensor& tensor, int32_t storage) const {
  Geometry g = geometry_of(tensor);
  g.offset -= slots_[storage].moved / static_cast<int64_t>(tensor.itemsize());
  return g;
}

bool Replayer::resembles_tensor(const TensorRef& ref, const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!is_plain(impl) || impl->is_wrapped_number() || impl->dtype() != c10::scalarTypeToTypeMeta(ref.geometry.dtype)) return false;
  c10::StorageImpl* storage = storage_of(impl);
  Slot& slot = slots_[ref.storage];
  if (slot.impl) return slot.impl == storage;
  if (base_->tape.storages[ref.storage].born >= 0 || !numbers_.insert(storage, ref.storage)) return false;
  slot.impl = storage;
  slot.weak = impl->unsafe_storage().getWeakStorageImpl();
  bound_now_.push_back(ref.storage);
  return true;
}

// The same op on the same memory; sizes, strides and integers may be others.
bool Replayer::resembles(const TapeOp& entry, const c10::OperatorHandle& op, const Stack& stack) {
  if (!(entry.op == op)) return false;
  if (entry.immediate) return true;
  if (entry.default_dtype != c10::get_default_dtype_as_scalartype()) return false;
  bound_now_.clear();
  size_t first = stack.size() - entry.args.size(), scalar = entry.before.scalars;
  auto same = [&](const TapeArgument& expected, const c10::IValue& given) {
    if (const auto* ref = std::get_if<TensorRef>(&expected)) {
      if (!given.isTensor() || given.toTensor().defined() != ref->defined()) return false;
      return !ref->defined() || resembles_tensor(*ref, given.toTensor());
    }
    if (const auto* list = std::get_if<TensorListRef>(&expected)) {
      if (!given.isTensorList() && !given.isOptionalTensorList()) return false;
      auto items = given.toListRef();
      if (items.size() != list->items.size()) return false;
      for (size_t i = 0; i < items.size(); ++i) {
        bool defined = items[i].isTensor() && items[i].toTensor().defined();
        if (defined != list->items[i].defined() || (defined && !resembles_tensor(list->items[i], items[i].toTensor()))) return false;
      }
      return true;
    }
    if (const auto* value = std::get_if<c10::IValue>(&expected))
      if ((value->isInt() && given.isInt()) || (value->isIntList() && given.isIntList())) return true;
    return matches_argument(entry, expected, given, scalar);
  };
  for (size_t i = 0; i < entry.args.size(); ++i)
    if (!same(entry.args[i], stack[first + i])) {
      mismatch_ = i;
      unbind_new();
      return false;
    }
  if (entry.absolute_offset && slots_[std::get<TensorRef>(entry.args[0]).storage].moved != 0) {
    unbind_new();
    return false;
  }
  return true;
}

// From here on the stream is one of its own, made from the known one.
bool Replayer::start_deriving(const c10::OperatorHandle& op, const Stack& stack) {
  const TapeOp* entry = derived_ ? nullptr : expected();
  if (!entry || !options_.may_derive || !options_.may_record) return false;
  base_ = stream_;
  if (!resembles(*entry, op, stack)) {
    base_.reset();
    return false;
  }
  shared_ = cursor_;
  derived_ = std::make_shared<Stream>();
  derived_->tape = prefix(base_->tape, cursor_, mark_at(base_->tape, cursor_));
  derived_->tape.storages = base_->tape.storages;
  derived_->tape.externals = base_->tape.externals;
  derived_->tape.scalars = base_->tape.scalars;
  derived_->number = SIZE_MAX;  // until it is added
  has_rule_.assign(cursor_, 1);
  stream_ = derived_;
  return true;
}

const TapeOp* Replayer::derive(const TapeOp& base, const Stack& stack) {
  TapeOp op = base;
  Tape& tape = derived_->tape;
  size_t first = stack.size() - op.args.size();
  auto refresh = [&](TensorRef& ref, const at::Tensor& tensor) {
    if (!ref.defined()) return;
    ref.geometry = place_of(tensor, ref.storage);
    tape.storages[ref.storage].bytes = tensor.storage().nbytes();
  };
  if (!op.immediate) {
    for (size_t i = 0; i < op.args.size(); ++i) {
      const c10::IValue& given = stack[first + i];
      if (auto* ref = std::get_if<TensorRef>(&op.args[i])) {
        refresh(*ref, given.toTensor());
      } else if (auto* list = std::get_if<TensorListRef>(&op.args[i])) {
        for (size_t k = 0; k < list->items.size(); ++k)
          if (list->items[k].defined()) refresh(list->items[k], given.toListRef()[k].toTensor());
      } else if (auto* value = std::get_if<c10::IValue>(&op.args[i]); value && (value->isInt() || value->isIntList())) {
        *value = given;
      }
    }
    for (TapeWrite& write : op.writes) {
      const TapeArgument& arg = op.args[write.argument];
      if (const auto* ref = std::get_if<TensorRef>(&arg)) write.ref = *ref;
      else write.ref = std::get<TensorListRef>(arg).items[write.item];
    }
  }
  auto inferred = op.immediate ? std::nullopt : infer_results(op, base);
  if (inferred && !place_results(op, *inferred)) return nullptr;
  has_rule_.push_back(inferred.has_value());
  tape.ops.push_back(std::move(op));
  return &tape.ops.back();
}

// False if there are more or fewer of them than in the known stream.
bool Replayer::place_results(TapeOp& op, std::vector<Geometry>& inferred) {
  size_t next = 0;
  for (TapeResult& result : op.results)
    for (size_t i = 0; i < result.items.size(); ++i) {
      TensorRef& ref = result.items[i];
      if (next >= inferred.size()) return false;
      Geometry& g = inferred[next++];
      if (!ref.defined()) continue;
      const Origin& origin = result.origins[i];
      ref.geometry = std::move(g);
      if (origin.argument < 0) {
        int64_t last = ref.geometry.offset;
        bool empty = false;
        for (size_t d = 0; d < ref.geometry.sizes.size(); ++d) {
          empty |= ref.geometry.sizes[d] == 0;
          last += (ref.geometry.sizes[d] - 1) * ref.geometry.strides[d];
        }
        derived_->tape.storages[ref.storage].bytes = empty ? 0 : static_cast<size_t>(last + 1) * c10::elementSize(ref.geometry.dtype);
      }
    }
  return next == inferred.size();
}

// Another stream that did the same up to here and goes on like this.
bool Replayer::find_stream(const c10::OperatorHandle& op, const Stack& stack) {
  if (derived_) return false;
  std::shared_ptr<const Stream> current = stream_;
  for (const auto& other : *streams_) {
    if (other == current || shared_ops(*current, *other) < cursor_ || other->tape.ops.size() <= cursor_) continue;
    stream_ = other;
    slots_.resize(std::max(slots_.size(), other->tape.storages.size()));
    memory_.scalars.resize(std::max(memory_.scalars.size(), other->tape.scalars.size()));
    if (matches(other->tape.ops[cursor_], op, stack)) return true;
  }
  stream_ = current;
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
  recorder_ = std::make_unique<Recorder>(options_, std::move(tape), std::move(live));
  names_(*recorder_);
}

// ---- waiting ----

void Replayer::on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (recorder_) return recorder_->on_call(op, keys, stack);
  outer_run(op, keys, stack);
}

void Replayer::on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (pass_through_) return inner_run(op, keys, stack);
  if (recorder_) return recorder_->on_op(op, keys, stack);
  std::unique_lock lock(mutex_);
  if (listening_is_paused()) {
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
  bool wait = true;
  for_each_operand(entry, [&](const TensorRef& ref) {
    Slot& slot = slots_[ref.storage];
    if (slot.owed) return;
    if (!slot.armed) {
      slot.armed = arm(slot.impl);
      wait &= slot.armed;
    }
    if (slot.snapshot && slot.waiting && std::memcmp(slot.snapshot.get(), slot.impl->data(), slot.impl->nbytes()) != 0) flush();
  });
  for (const TapeWrite& write : entry.writes) {
    Slot& slot = slots_[write.ref.storage];
    wait &= slot.owed || (!slot.handed_out && slot.owns_memory());
  }
  return wait;
}

bool Replayer::index_is_good(const TapeOp& entry, const Stack& stack) {
  for (int argument : index_arguments(entry.op)) {
    bool there = true;
    for_each_tensor(stack[stack.size() - entry.args.size() + argument], [&](const at::Tensor& index) {
      int32_t known = numbers_.find(storage_of(index.unsafeGetTensorImpl()));
      there &= known >= 0 && !slots_[known].owed && !slots_[known].is_hidden;
    });
    if (!there) return true;
  }
  return indices_are_good(entry.op, stack);
}

void Replayer::hold(int32_t storage) {
  Slot& slot = slots_[storage];
  if (slot.waiting) return;
  slot.waiting = true;
  waiting_.push_back(storage);
  if (slot.owed) return;
  slot.held = c10::Storage(slot.weak.lock());
  if (!slot.handed_out && slot.owns_memory()) return;
  slot.snapshot = c10::GetCPUAllocator()->allocate(slot.impl->nbytes());
  std::memcpy(slot.snapshot.get(), slot.impl->data(), slot.impl->nbytes());
}

void Replayer::hide(int32_t storage) {
  Slot& slot = slots_[storage];
  if (slot.owed || slot.is_hidden) return;
  slot.range = AddressRange(slot.impl->nbytes());
  slot.is_hidden = true;
  slot.hidden = std::move(slot.impl->_mutable_data_ptr_no_checks());
  slot.impl->_mutable_data_ptr_no_checks() = c10::DataPtr(const_cast<char*>(slot.range.begin()), c10::kCPU);
}

at::Tensor Replayer::make_result(const TensorRef& ref, const Origin& origin, const Stack& stack, size_t first) {
  if (!ref.defined()) return {};
  Slot& slot = slots_[ref.storage];
  const Geometry& g = ref.geometry;
  auto dtype = c10::scalarTypeToTypeMeta(g.dtype);
  at::Tensor out;
  if (origin.argument >= 0) {
    const c10::IValue& operand = stack[first + origin.argument];
    const at::Tensor& base = operand.isTensor() ? operand.toTensor() : operand.toListRef()[origin.item].toTensor();
    if (origin.same) return base;
    out = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()), base.key_set(), dtype);
  } else {
    c10::Storage storage;
    if (slot.impl) {
      storage = c10::Storage(slot.weak.lock());
    } else {
      size_t bytes = stream_->tape.storages[ref.storage].bytes;
      slot.range = AddressRange(bytes);
      storage = make_placeholder(slot.range, bytes);
      slot.impl = storage.unsafeGetStorageImpl();
      slot.weak = storage.getWeakStorageImpl();
      slot.owed = slot.armed = true;
      numbers_.insert(slot.impl, ref.storage);
      owed_.push_back(ref.storage);
    }
    out = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
  }
  int64_t moved = slot.moved / static_cast<int64_t>(dtype.itemsize());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(g.sizes, g.strides, g.offset + moved);
  return out;
}

void Replayer::defer(const TapeOp& entry, Stack* stack) {
  for_each_operand(entry, [&](const TensorRef& ref) { hold(ref.storage); });
  for (const TapeWrite& write : entry.writes) hide(write.ref.storage);
  size_t first = stack->size() - entry.args.size();
  c10::SmallVector<c10::IValue, 3> results;
  for (const TapeResult& result : entry.results) {
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
  if (waiting_ops_++ == 0) done_ = cursor_;  // ops that ran at once may lie before it
  ++cursor_;
  ++counts_.replayed;
}

// ---- running ----

void Replayer::bind(const TensorRef& ref, const at::Tensor& tensor) {
  if (!is_plain(tensor.unsafeGetTensorImpl())) return;
  Slot& slot = slots_[ref.storage];
  c10::StorageImpl* impl = storage_of(tensor.unsafeGetTensorImpl());
  if (slot.impl || !numbers_.insert(impl, ref.storage)) return;
  slot.impl = impl;
  slot.weak = tensor.storage().getWeakStorageImpl();
  slot.moved = (tensor.storage_offset() - ref.geometry.offset) * static_cast<int64_t>(tensor.itemsize());
}

// Does an op that runs now need what others wait to write, or write what they wait to read?
bool Replayer::touches_waiting(const c10::OperatorHandle& op, const Stack& stack) const {
  const auto& parameters = op.schema().arguments();
  size_t first = stack.size() - parameters.size();
  bool touches = false;
  for (size_t i = 0; i < parameters.size(); ++i)
    for_each_tensor(stack[first + i], [&](const at::Tensor& tensor) {
      if (!tensor.has_storage()) return;
      int32_t known = numbers_.find(storage_of(tensor.unsafeGetTensorImpl()));
      if (known < 0) return;
      const Slot& slot = slots_[known];
      touches |= slot.owed || slot.is_hidden || (slot.waiting && parameters[i].alias_info());
    });
  return touches;
}

void Replayer::run_now(const TapeOp& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack, bool alone) {
  size_t count = entry.args.size(), first = stack->size() - count;
  const auto& parameters = op.schema().arguments();
  if (touches_waiting(op, *stack)) flush();
  for (size_t i = 0; i < count; ++i)
    if (parameters[i].alias_info()) for_each_tensor((*stack)[first + i], [&](const at::Tensor& tensor) { release_arm(tensor); });
  mutex_.unlock();
  try {
    inner_run(op, keys, stack);
  } catch (...) {
    mutex_.lock();
    throw;
  }
  mutex_.lock();
  note_real_results(*stack);
  for (size_t r = 0; r < entry.results.size(); ++r) {
    const TapeResult& result = entry.results[r];
    const c10::IValue& value = (*stack)[stack->size() - entry.results.size() + r];
    size_t i = 0;
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (i >= result.items.size()) return;
      const TensorRef& ref = result.items[i++];
      if (!ref.defined() || !tensor.has_storage()) return;
      bind(ref, tensor);
      Slot& slot = slots_[ref.storage];
      if (entry.births && slot.impl && !slot.armed) slot.armed = arm(slot.impl);
    });
  }
  ++cursor_;
  if (alone) done_ = cursor_;
}

// A derived op that ran shows what its results look like.
void Replayer::note_real_results(const Stack& stack) {
  if (!derived_) return;
  TapeOp& op = derived_->tape.ops.back();
  for (size_t r = 0; r < op.results.size(); ++r) {
    TapeResult& result = op.results[r];
    size_t i = 0;
    for_each_tensor(stack[stack.size() - op.results.size() + r], [&](const at::Tensor& tensor) {
      size_t at = i++;
      if (at >= result.items.size() || !result.items[at].defined() || !is_plain(tensor.unsafeGetTensorImpl())) {
        derivable_ = false;
        return;
      }
      TensorRef& ref = result.items[at];
      int32_t memory = numbers_.find(storage_of(tensor.unsafeGetTensorImpl()));
      derivable_ &= memory == (result.origins[at].argument < 0 ? -1 : ref.storage);
      ref.geometry = place_of(tensor, ref.storage);
      derived_->tape.storages[ref.storage].bytes = tensor.storage().nbytes();
    });
    if (!result.items.empty() && result.items[0].defined()) derivable_ &= i == result.items.size();
  }
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
    const void* begin = slot.snapshot ? slot.snapshot.get() : slot.is_hidden ? slot.hidden.get() : slot.impl->data();
    memory_.lend(storage, begin, slot.impl->nbytes(), slot.moved);
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
  for (int32_t storage : owed_) slots_[storage].owed = false;
  owed_.clear();
  for (int32_t storage : waiting_) {
    Slot& slot = slots_[storage];
    if (slot.is_hidden) slot.impl->set_data_ptr_noswap(std::move(slot.hidden));
    slot.is_hidden = slot.waiting = false;
    slot.snapshot = {};
    slot.held = {};
  }
  waiting_.clear();
  memory_.clear();
  done_ = cursor_;
  waiting_ops_ = 0;
}

void Replayer::on_access(c10::StorageImpl* storage) {
  std::lock_guard lock(mutex_);
  int32_t known = numbers_.find(storage);
  if (known < 0 || recorder_) return;
  Slot& slot = slots_[known];
  if (slot.waiting || slot.owed) flush();
  slot.armed = false;
  slot.handed_out = true;
}

bool Replayer::on_fault(const char* address) {
  std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) {
    if (!slot.range.begin() || !slot.range.contains(address)) continue;
    try {
      if (slot.owed || slot.is_hidden) flush();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "tenon: a tensor was read through a const pointer, but computing it failed: %s\n", error.what());
      return false;
    }
    auto impl = slot.weak.lock();
    if (!impl) return false;
    slot.range.show(impl->data());
    slot.shown = true;
    return true;
  }
  return false;
}

void Replayer::release_arm(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return;
  int32_t known = numbers_.find(storage_of(tensor.unsafeGetTensorImpl()));
  if (known < 0 || !slots_[known].armed) return;
  slots_[known].armed = false;
  disarm(slots_[known].impl);
}

void Replayer::release() {
  bool keep = others_enlisted();
  for (Slot& slot : slots_) {
    if (!slot.armed) continue;
    slot.armed = false;
    if (auto impl = slot.weak.lock(); impl && !keep) disarm(impl.get());
  }
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
  std::exception_ptr error;
  try {
    if (!recorder_ && !pass_through_) end_stream();
  } catch (...) {
    error = std::current_exception();
  }
  release();
  for (Slot& slot : slots_)
    if (slot.shown) slot.range.close();
  if (error) std::rethrow_exception(error);
}

}  // namespace tenon::capture
