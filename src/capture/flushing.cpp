// Flushing: ops that run immediately, the flush of deferred ops, and the accesses and page faults that cause one.
#include <c10/core/CPUAllocator.h>
#include <c10/core/DefaultDtype.h>

#include <cstring>

#include "bridge/access.h"
#include "capture/observed_tensor.h"
#include "capture/replayer.h"
#include "capture/tensors.h"

namespace tenon::capture {
namespace {

// Sets libtorch's default dtype for its lifetime.
class DefaultDtype {
 public:
  explicit DefaultDtype(at::ScalarType dtype) : before_(c10::get_default_dtype_as_scalartype()) {
    if (dtype != before_) c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
  }
  ~DefaultDtype() {
    if (c10::get_default_dtype_as_scalartype() != before_) c10::set_default_dtype(c10::scalarTypeToTypeMeta(before_));
  }

 private:
  at::ScalarType before_;
};

bool is_aten(const c10::OperatorHandle& op) { return op.operator_name().getNamespace() == "aten"; }

}  // namespace

// Returns whether an op that runs now reads memory that deferred ops write, or writes memory that they read.
bool Replayer::touches_deferred(const c10::OperatorHandle& op, const Stack& stack) const {
  const auto& parameters = op.schema().arguments();
  size_t first = stack.size() - parameters.size();
  bool touches = false;
  for (size_t i = 0; i < parameters.size(); ++i)
    for_each_tensor(stack[first + i], [&](const at::Tensor& tensor) {
      if (!has_memory(tensor.unsafeGetTensorImpl())) return;
      c10::StorageImpl* impl = storage_of(tensor.unsafeGetTensorImpl());
      int32_t id = storages_.find(impl);
      if (id < 0) {
        touches |= storages_.overlaps_used(impl);
        return;
      }
      const CallStorage& storage = storages_[id];
      touches |= (storage.overlaps && deferred_ops_ > 0) || storage.pending || storage.is_withdrawn ||
                 (storage.used_by_deferred && parameters[i].alias_info());
    });
  return touches;
}

// Disarms the operands of an ATen op. ATen's kernels request pointers but keep none, so these requests are not the program's.
std::vector<int32_t> Replayer::disarm_operands(const c10::OperatorHandle& op, const Stack& stack) {
  std::vector<int32_t> armed;
  if (!is_aten(op) || other_replays_exist()) return armed;
  for (size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i)
    for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
      if (!has_memory(tensor.unsafeGetTensorImpl())) return;
      c10::StorageImpl* impl = storage_of(tensor.unsafeGetTensorImpl());
      int32_t id = storages_.find(impl);
      if (id < 0 && impl->has_materializer()) bridge::disarm(impl);  // An argument that no op has used yet.
      if (id < 0 || !storages_[id].armed) return;
      storages_[id].armed = false;
      bridge::disarm(impl);
      armed.push_back(id);
    });
  return armed;
}

void Replayer::run_immediately(const TapeOp& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack, bool alone) {
  if (touches_deferred(op, *stack)) flush();
  std::vector<int32_t> armed = disarm_operands(op, *stack);
  auto rearm = [&] {
    for (int32_t id : armed) StorageTable::arm(storages_[id]);
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
    forget_failed_op();
    throw;
  }
  mutex_.lock();
  quiet.reset();
  rearm();
  if (is_deriving()) record_real_results(*stack);
  bind_results(entry, *stack);
  for (const TapeWrite& write : entry.writes)
    if (CallStorage& storage = storages_[write.ref.storage]; storage.impl) retire_copy(storage.impl);
  ++cursor_;
  if (alone) flushed_ = cursor_;
}

// Unbinds the storages that the last match has bound.
void Replayer::undo_match() {
  if_alone([&] {
    for (int32_t id : storages_.newly_bound())
      if (storages_[id].armed) bridge::disarm(storages_[id].impl);
  });
  storages_.undo_match();
}

// The program may catch the error and continue with another op, for which the storage ids have other meanings.
void Replayer::forget_failed_op() {
  undo_match();
  if (!is_deriving()) return;
  derived_->tape.ops.pop_back();
  has_rule_.pop_back();
}

// Binds the storages of results that are there, since the op has run.
void Replayer::bind_results(const TapeOp& entry, const Stack& stack) {
  for (size_t r = 0; r < entry.results.size(); ++r) {
    const TapeResult& result = entry.results[r];
    const c10::IValue& value = stack[stack.size() - entry.results.size() + r];
    size_t i = 0;
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (i >= result.items.size()) return;
      const TensorRef& ref = result.items[i++];
      c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
      if (!ref.defined() || !has_memory(impl)) return;
      CallStorage& storage = storages_[ref.storage];
      if (!storage.impl && is_plain(impl))
        storages_.bind(ref.storage, impl, (tensor.storage_offset() - ref.geometry.offset) * static_cast<int64_t>(tensor.itemsize()));
      observe(impl);                                                   // Deferred ops may write it: `empty_like(x).copy_(y)`.
      if (storage.impl && !storage.armed) StorageTable::arm(storage);  // The host may request a pointer from now on.
    });
  }
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
  for (int32_t id : storages_.pending())
    if (storages_[id].weak.use_count() > 0) live.push_back(id);
  memory_.resize(storages_.size());
  for (int32_t id : storages_.used()) {
    const CallStorage& storage = storages_[id];
    if (storage.pending) continue;
    if (c10::Storage only = storages_.take_unused(id)) {
      memory_.own(id, std::move(only));
      continue;
    }
    auto [begin, owner] = storages_.memory(storage);
    memory_.borrow(id, begin, storage.impl->nbytes(), storage.shift, owner);
  }
  std::exception_ptr error;
  DefaultDtype dtype(default_dtype_);
  try {
    if (!runner_ || !runner_({*stream_, flushed_, cursor_, live}, memory_)) {
      ++counts_.op_by_op;
      run_ops(stream_->tape, flushed_, cursor_, memory_);
    }
  } catch (...) {
    error = std::current_exception();
    state_ = ReplayState::passing_through;
  }
  materialize_results(live);
  flushing_ = false;
  if (error) std::rethrow_exception(error);
}

// Gives pending storages their contents and restores withdrawn pointers.
void Replayer::materialize_results(const std::vector<int32_t>& live) {
  for (int32_t id : live) {
    c10::intrusive_ptr<c10::StorageImpl> impl = storages_[id].weak.lock();
    if (!impl) continue;
    if (memory_.has(id)) {
      impl->set_data_ptr_noswap(memory_.take(id, impl->nbytes()));
    } else {  // An earlier op failed; in eager mode this storage would not exist.
      c10::DataPtr nothing = c10::GetCPUAllocator()->allocate(impl->nbytes());
      std::memset(nothing.get(), 0, impl->nbytes());
      impl->set_data_ptr_noswap(std::move(nothing));
    }
  }
  storages_.release_used();
  memory_.clear();
  flushed_ = cursor_;
  deferred_ops_ = 0;
}

void Replayer::on_access(c10::StorageImpl* impl, AccessKind access, pid_t thread) {
  bool elsewhere = thread != thread_;
  if (!storages_.may_contain(impl)) {
    if (!elsewhere) storages_.add_early_access(impl, access);
    return;
  }
  Lock lock(mutex_);
  if (state_ == ReplayState::recording) return;
  int32_t id = storages_.find(impl);
  if (id < 0) {
    if (!elsewhere) storages_.add_early_access(impl, access);
    return;
  }
  CallStorage& storage = storages_[id];
  if (storage.is_withdrawn && elsewhere) note_use_by_other_thread(impl);
  try {
    // Deferred ops that read the storage stay deferred while others read it too.
    bool is_pending = storage.pending || storage.is_withdrawn || (storage.used_by_deferred && storages_.needs_flush());
    bool is_read_later = storage.used_by_deferred || (storage.overlaps && deferred_ops_ > 0);
    if (is_pending || (is_read_later && access == AccessKind::write)) flush();
  } catch (...) {
    if (!elsewhere) throw;
    postponed_error_ =
        std::current_exception();  // The error belongs to the program's thread: its next op, or the end of the call, throws it.
  }
  if (access == AccessKind::write) {
    storage.armed = false;  // libtorch has cleared the hook.
    storage.mutable_pointer_given = true;
  } else {
    storage.const_pointer_given = true;
  }
  storages_.compare_range(id);  // The program may create another storage over it.
}

bool Replayer::on_fault(const char* address) {
  Lock lock(mutex_);
  for (CallStorage& storage : storages_.all()) {
    if (!storage.span.contains(address)) continue;
    try {
      if (storage.pending) flush();
    } catch (...) {
      postponed_error_ = std::current_exception();  // The fault handler cannot throw: the next op, or the end of the call, does.
    }
    auto impl = storage.weak.lock();
    if (!impl) return false;
    storage.copy_mapped = map_copy(storage.span, impl->data());
    return storage.copy_mapped;
  }
  return false;
}

}  // namespace tenon::capture
