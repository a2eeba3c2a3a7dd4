#include "capture/replayer.h"

#include <c10/core/DefaultDtype.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/per_thread.h"
#include "bridge/access.h"
#include "capture/dispatch_state.h"
#include "capture/faults.h"
#include "capture/observed_tensor.h"
#include "capture/source.h"
#include "capture/tensors.h"

namespace tenon::capture {

Replayer::Replayer(std::shared_ptr<const StreamList> streams, RecordOptions options, OpRangeRunner runner,
                   std::function<void(Recorder&)> names)
    : streams_(std::move(streams)),
      options_(options),
      runner_(std::move(runner)),
      name_externals_(std::move(names)),
      thread_(this_thread()) {
  if (streams_->empty()) {
    start_recording(std::make_unique<Recorder>(options_));
  } else {
    follow(streams_->front());
    storages_.reserve_ids();
  }
}

Replayer::ReplayBuffers& Replayer::spare_buffers() { return per_thread<ReplayBuffers>(); }

Replayer::~Replayer() {
  buffers_.storages.clear();
  memory_.clear();
  memory_.scalars.clear();
  buffers_.addresses.reset();
  spare_buffers() = std::move(buffers_);
}

void Replayer::observe_arguments(c10::ArrayRef<const at::Tensor*> tensors) {
  Lock lock(mutex_);
  if (state_ == ReplayState::recording) return;
  for (const at::Tensor* tensor : tensors) {
    c10::TensorImpl* impl = tensor->defined() ? tensor->unsafeGetTensorImpl() : nullptr;
    if (!impl || !is_plain(impl) || is_reserved(storage_of(impl)->data())) continue;
    observe(impl);
    if (bridge::arm(storage_of(impl))) arguments_.push_back(impl->unsafe_storage().getWeakStorageImpl());
  }
}

void Replayer::follow(const std::shared_ptr<const Stream>& stream) {
  if (stream_ == stream) return;
  stream_ = stream;
  matcher_.set_tape(stream->tape);
  storages_.grow(stream->tape.storages.size());
  memory_.scalars.resize(std::max(memory_.scalars.size(), stream->tape.scalars.size()));
  next_call_ = 0;
}

// Switches to another stream with the same prefix that continues with this op. Returns false if there is none.
bool Replayer::find_stream(const c10::OperatorHandle& op, const Stack& stack) {
  if (is_deriving()) return false;
  std::shared_ptr<const Stream> current = stream_;
  for (const auto& other : *streams_) {
    if (other == current || shared_ops(*current, *other) < cursor_ || other->tape.ops.size() <= cursor_) continue;
    follow(other);
    if (matcher_.matches(other->tape.ops[cursor_], op, stack)) return true;
  }
  follow(current);
  return false;
}

std::string Replayer::describe_difference(const TapeOp* entry, const c10::OperatorHandle& op, const Stack& stack, size_t argument) const {
  std::string at = "op " + std::to_string(cursor_) + ": ";
  if (!entry) return at + "the end became " + op_name(op);
  if (!(entry->op == op)) return at + op_name(entry->op) + " became " + op_name(op);
  const c10::IValue& given = stack[stack.size() - entry->args.size() + argument];
  std::string was = describe(entry->args[argument]), is = describe(given);
  return at + op_name(op) + ", argument " + std::to_string(argument) + ": " + was + (was == is ? " became another one" : " became " + is);
}

// Leaves the known streams: from here on the program's ops run and are recorded.
void Replayer::depart(const std::string& difference) {
  flush();
  difference_ = difference;
  difference_frames_ = return_addresses();
  if (!is_deriving()) shared_ops_ = cursor_;
  alike_ops_ = cursor_;
  if (!options_.may_record || !derivable_) {
    state_ = ReplayState::passing_through;
    release();
    if (options_.may_not_depart)
      throw UserError(ErrorCode::recompile, "the program departs from its recorded calls under fail_on_recompile: " + difference);
    return;
  }
  Tape tape = prefix(stream_->tape, cursor_, position_at(known().tape, cursor_));
  std::copy_n(memory_.scalars.begin(), tape.scalars.size(), tape.scalars.begin());
  std::erase_if(tape.user_calls, [&](const UserCall& call) {  // The constants may differ from this call's.
    size_t begin = call.range.scalars_begin, count = call.range.scalars_end - begin;
    return count > 0 && std::memcmp(&tape.scalars[begin], &stream_->tape.scalars[begin], count * sizeof(double)) != 0;
  });
  std::unordered_map<const c10::StorageImpl*, int32_t> live;
  for (size_t s = 0; s < tape.storages.size(); ++s) {
    const CallStorage& storage = storages_[static_cast<int32_t>(s)];
    if (!storage.impl) continue;
    // A backward that has begun may have released some. The weak reference keeps their addresses from being used again.
    live.emplace(storage.impl, static_cast<int32_t>(s));
    tape.storages[s].weak = storage.weak;
    tape.storages[s].shift = storage.shift;
  }
  release();
  derived_.reset();
  if (!same_nodes_) options_.first_node = UINT64_MAX;  // The prefix does not say which ops created the nodes.
  start_recording(std::make_unique<Recorder>(options_, std::move(tape), std::move(live)));
}

void Replayer::start_recording(std::unique_ptr<Recorder> recorder) {
  state_ = ReplayState::recording;
  recorder_ = std::move(recorder);
  recorder_->continue_backward(std::exchange(running_backward_, std::nullopt));
  name_externals_(*recorder_);
  storages_.ignore_early_accesses();
}

void Replayer::throw_postponed_error() {
  if (postponed_error_) std::rethrow_exception(std::exchange(postponed_error_, nullptr));
}

void Replayer::on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  Lock lock(mutex_);
  throw_postponed_error();
  switch (state_) {
    case ReplayState::following:
    case ReplayState::deriving:
      return replay_op(lock, op, keys, stack);
    case ReplayState::recording:
      lock.unlock();
      return recorder_->on_op(op, keys, stack);
    case ReplayState::passing_through:
      lock.unlock();
      return inner_run(op, keys, stack);
  }
}

// Deferred ops run with the default dtype that they were called with.
void Replayer::note_default_dtype() {
  at::ScalarType now = c10::get_default_dtype_as_scalartype();
  if (deferred_ops_ > 0 && now != default_dtype_) flush();
  default_dtype_ = now;
}

void Replayer::replay_op(Lock& lock, const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  note_default_dtype();
  if (listening_is_paused()) {
    same_nodes_ = false;  // Nodes that are created while listening is paused are not on the stream.
    if (touches_deferred(op, *stack)) flush();
    lock.unlock();
    return inner_run(op, keys, stack);
  }
  const TapeOp* entry = expected();
  if ((!entry || !(entry->op == op)) && is_composite(op)) {
    lock.unlock();
    return inner_decompose(op, keys, stack);
  }
  entry = match_op(entry, op, *stack);
  if (!entry) {
    lock.unlock();
    return on_op(op, keys, stack);
  }
  if (entry->immediate) return run_immediately(*entry, op, keys, stack, /*alone=*/false);
  bool has_rule = !is_deriving() || has_rule_.back();
  if (!has_rule || !can_defer(*entry) || (entry->takes_indices && !accepts_indices(*entry, *stack))) {
    flush();
    return run_immediately(*entry, op, keys, stack, /*alone=*/true);
  }
  defer(*entry, stack);
}

const TapeOp* Replayer::match_op(const TapeOp* entry, const c10::OperatorHandle& op, const Stack& stack) {
  bool match = entry && (is_deriving() ? matcher_.matches_except_sizes(*entry, op, stack) : matcher_.matches(*entry, op, stack));
  if (!match) {
    size_t argument = matcher_.mismatched_argument();
    if (!find_stream(op, stack) && !start_deriving(op, stack)) {
      depart(describe_difference(entry, op, stack, argument));
      return nullptr;
    }
    entry = expected();
  }
  same_nodes_ = same_nodes_ && entry->nodes == nodes_made() - options_.first_node;
  if (!is_deriving()) return entry;
  entry = derive(*entry, stack);
  if (!entry) depart("op " + std::to_string(cursor_) + ": " + op_name(op) + " cannot be followed with these sizes");
  return entry;
}

void Replayer::release() {
  // A replay that begins meanwhile could rely on a hook that is about to be cleared.
  if_alone([&] {
    for (CallStorage& storage : storages_.all())
      if (auto impl = storage.armed ? storage.weak.lock() : nullptr) bridge::disarm(impl.get());
    for (auto& argument : arguments_)
      if (auto impl = argument.lock()) bridge::disarm(impl.get());
  });
  arguments_.clear();
  for (CallStorage& storage : storages_.all()) storage.armed = false;
}

void Replayer::end_stream() {
  flush();
  complete_ = cursor_ == known().tape.ops.size();
  alike_ops_ = cursor_;
  if (complete_) return;
  for (const auto& other : *streams_) {
    size_t common = is_deriving() ? alike_ops(*base_, *other) : shared_ops(*stream_, *other);
    if (complete_ || common < cursor_ || other->tape.ops.size() != cursor_) continue;
    if (is_deriving()) change_base(other);
    else stream_ = other;
    complete_ = true;
  }
  if (!complete_) depart("it ended after " + std::to_string(cursor_) + " ops");
}

void Replayer::finish() {
  Lock lock(mutex_);
  std::exception_ptr error = std::exchange(postponed_error_, nullptr);
  try {
    switch (state_) {
      case ReplayState::following:
      case ReplayState::deriving:
        end_stream();
        break;
      case ReplayState::passing_through:
        if (deferred_ops_ > 0) flush();
        break;
      case ReplayState::recording:
        break;
    }
  } catch (...) {
    error = std::current_exception();
  }
  release();
  for (CallStorage& storage : storages_.all())
    if (storage.copy_mapped) unmap_copy(storage.span);
  if (error) std::rethrow_exception(error);
}

}  // namespace tenon::capture
