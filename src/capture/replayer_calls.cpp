// Replay of user calls and of whole backward passes: if one matches the stream, all of its ops are deferred together.
#include <torch/csrc/autograd/VariableTypeUtils.h>

#include <algorithm>
#include <cstring>

#include "capture/backward_event.h"
#include "capture/dispatch_state.h"
#include "capture/replayer.h"
#include "capture/tensors.h"

namespace tenon::capture {
namespace {

torch::autograd::CreationMeta view_creation_meta() {
  using torch::autograd::CreationMeta;
  if (c10::InferenceMode::is_enabled()) return CreationMeta::INFERENCE_MODE;
  return at::GradMode::is_enabled() ? CreationMeta::DEFAULT : CreationMeta::NO_GRAD_MODE;
}

void bump(const at::Tensor& tensor, int64_t times) {
  for (int64_t i = 0; i < times; ++i) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

// Defers the ops of a range. Returns false, without any change, if they cannot be deferred.
bool Replayer::defer_range(const DeferrableRange& range) {
  if (storages_.take_needs_flush()) flush();
  for (int32_t id : range.touches) {
    CallStorage& storage = storages_[id];
    if (!storage.impl || (!storage.pending && storage.weak.expired()) || !is_observable(storage)) return false;
  }
  for (int32_t id : range.writes)
    if (!can_defer_writes(storages_[id])) return false;
  std::copy(stream_->tape.scalars.begin() + static_cast<ptrdiff_t>(range.scalars_begin),
            stream_->tape.scalars.begin() + static_cast<ptrdiff_t>(range.scalars_end),
            memory_.scalars.begin() + static_cast<ptrdiff_t>(range.scalars_begin));
  for (int32_t id : range.touches) storages_.hold(id);
  for (int32_t id : range.writes) storages_.withdraw_pointer(id);
  advance_to(range.end);
  return true;
}

// ---- user calls ----

// Returns the recorded call at the cursor if it matches, or null.
const UserCall* Replayer::find_call(const c10::OperatorHandle& op, const Stack& stack) {
  const auto& calls = stream_->tape.user_calls;
  while (next_call_ < calls.size() && calls[next_call_].range.begin < cursor_) ++next_call_;
  if (next_call_ >= calls.size()) return nullptr;
  const UserCall& call = calls[next_call_];
  if (call.range.begin != cursor_ || !(call.op == op) || !(call.dispatch_state == current_dispatch_state())) return nullptr;
  return matcher_.matches_call(call, stack) ? &call : nullptr;
}

void Replayer::on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  Lock lock(mutex_);
  if (state_ == ReplayState::recording) {
    lock.unlock();
    return recorder_->on_call(op, keys, stack);
  }
  note_default_dtype();
  if (state_ == ReplayState::following && options_.record_calls && !postponed_error_ && !listening_is_paused()) {
    const UserCall* call = find_call(op, *stack);
    if (call && defer_range(call->range)) {
      if (call->written >= 0) bump((*stack)[stack->size() - call->args.size() + call->written].toTensor(), call->bumps);
      return push_results(call->results, call->args.size(), stack);
    }
  }
  lock.unlock();
  outer_run(op, keys, stack);
}

at::Tensor Replayer::as_view(const at::Tensor& base, at::Tensor out) const {
  return torch::autograd::as_view(base, out, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/true, nullptr, nullptr,
                                  view_creation_meta());
}

// ---- backward passes ----

bool Replayer::matches_backward(const Backward& backward, const BackwardGraph& graph, const BackwardCall& call) {
  if (backward.range.begin != cursor_ || backward.gradients.size() != call.gradients().size() || backward.signature != graph.signature ||
      !(backward.dispatch_state == current_dispatch_state()))
    return false;
  for (int32_t scalar : backward.scalars)
    if (std::memcmp(&memory_.scalars[scalar], &stream_->tape.scalars[scalar], sizeof(double)) != 0) return false;
  return matcher_.matches_backward_inputs(backward, call.gradients(), graph);
}

bool Replayer::on_backward(const BackwardCall& call) {
  Lock lock(mutex_);
  if (state_ == ReplayState::recording) {
    lock.unlock();
    return recorder_->on_backward(call);
  }
  running_backward_.reset();
  note_default_dtype();
  if (postponed_error_ || state_ != ReplayState::following || !same_nodes_) return false;
  auto graph = graph_of(call, options_);
  if (!graph) return false;
  std::vector<std::unique_lock<std::mutex>> locks;
  if (!call.lock_leaves(locks)) return false;
  std::shared_ptr<const Stream> current = stream_;
  for (const auto& stream : *streams_) {
    if (stream != current && shared_ops(*current, *stream) < cursor_) continue;
    follow(stream);
    for (const Backward& backward : stream_->tape.backwards) {
      if (!matches_backward(backward, *graph, call)) continue;
      if (!defer_range(backward.range)) {
        undo_match();
        continue;
      }
      set_gradients(backward, *graph);
      call.release();
      ++counts_.backwards;
      return true;
    }
  }
  follow(current);
  running_backward_ = start_of(call, std::move(*graph), cursor_);
  return false;
}

// Gives the leaves the gradients that the deferred ops of a backward compute.
void Replayer::set_gradients(const Backward& backward, const BackwardGraph& graph) {
  std::vector<int64_t> versions;  // Gradients that are views of one tensor share a counter.
  versions.reserve(graph.leaves.size());
  for (const at::Tensor& leaf : graph.leaves) versions.push_back(leaf.grad().defined() ? leaf.grad()._version() : 0);
  for (size_t i = 0; i < graph.leaves.size(); ++i) {
    const Backward::Leaf& leaf = backward.leaves[i];
    if (!leaf.after.defined()) continue;
    if (!leaf.same) {
      at::Tensor gradient = make_result(leaf.after, Origin{}, {}, 0);
      gradient.unsafeGetTensorImpl()->set_allow_tensor_metadata_change(leaf.may_change_metadata);
      graph.leaves[i].mutable_grad() = std::move(gradient);
      versions[i] = 0;
    }
    const at::Tensor& gradient = graph.leaves[i].grad();
    bump(gradient, versions[i] + leaf.bumps - gradient._version());
  }
}

void Replayer::after_backward() {
  Lock lock(mutex_);
  auto start = std::exchange(running_backward_, std::nullopt);
  if (state_ == ReplayState::recording) {
    lock.unlock();
    return recorder_->after_backward();
  }
  if (!start || !is_deriving()) return;
  // The same backward with other sizes.
  auto find = [&](const c10::StorageImpl* storage) -> std::optional<StorageOnTape> {
    int32_t id = storages_.find(storage);
    if (id < 0) return std::nullopt;
    return StorageOnTape{id, storages_[id].shift};
  };
  Tape& tape = derived_->tape;
  auto event = describe_backward(std::move(*start), tape, find);
  if (!event) return;
  // The derived tape has the scalars of the known stream. The backward's may depend on sizes: a mean divides by the number of elements.
  std::copy_n(memory_.scalars.begin(), tape.scalars.size(), tape.scalars.begin());
  tape.backwards.push_back(std::move(*event));
}

}  // namespace tenon::capture
