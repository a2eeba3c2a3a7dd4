// Replay of user calls and of whole backward passes: if one matches the stream, all of its ops are deferred together.
#include <torch/csrc/autograd/VariableTypeUtils.h>

#include <cstring>

#include "capture/backward.h"
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
  if (backward.range.begin != cursor_ || backward.gradients.size() != call.gradients().size() || backward.signature != graph.signature)
    return false;
  for (int32_t scalar : backward.scalars)
    if (std::memcmp(&memory_.scalars[scalar], &stream_->tape.scalars[scalar], sizeof(double)) != 0) return false;
  return matcher_.matches_gradients(backward, call.gradients(), graph.leaves);
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
  auto graph = call.graph(options_.first_node);
  if (!graph) return false;
  std::shared_ptr<const Stream> current = stream_;
  for (const auto& stream : *streams_) {
    if (stream != current && shared_ops(*current, *stream) < cursor_) continue;
    follow(stream);
    for (const Backward& backward : stream_->tape.backwards) {
      if (!matches_backward(backward, *graph, call) || !defer_range(backward.range)) continue;
      for (size_t i = 0; i < graph->leaves.size(); ++i) {
        const Backward::Leaf& leaf = backward.leaves[i];
        if (!leaf.after.defined()) continue;
        if (!leaf.same) graph->leaves[i].mutable_grad() = make_result(leaf.after, Origin{}, {}, 0);
        bump(graph->leaves[i].grad(), leaf.bumps);
      }
      call.release();
      return true;
    }
  }
  follow(current);
  running_backward_ = start_of(call, std::move(*graph), cursor_);
  return false;
}

void Replayer::after_backward() {
  Lock lock(mutex_);
  running_backward_.reset();
  if (state_ != ReplayState::recording) return;
  lock.unlock();
  recorder_->after_backward();
}

}  // namespace tenon::capture
