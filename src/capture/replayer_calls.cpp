// Replay of user calls and of whole backward passes: if one matches the stream, all of its ops are deferred together.
#include <torch/csrc/autograd/VariableTypeUtils.h>

#include <cstring>

#include "capture/backward.h"
#include "capture/dispatch_state.h"
#include "capture/replayer.h"
#include "capture/tensors.h"

namespace tenon::capture {
namespace {

torch::autograd::CreationMeta views_are_made() {
  using torch::autograd::CreationMeta;
  if (c10::InferenceMode::is_enabled()) return CreationMeta::INFERENCE_MODE;
  return at::GradMode::is_enabled() ? CreationMeta::DEFAULT : CreationMeta::NO_GRAD_MODE;
}

bool same_flags(const TapeArgument& expected, const c10::IValue& given) {
  bool same = true;
  if (const auto* ref = std::get_if<TensorRef>(&expected)) {
    if (ref->defined()) same = ref->requires_grad == given.toTensor().requires_grad();
  } else if (const auto* list = std::get_if<TensorListRef>(&expected)) {
    for (size_t i = 0; i < list->items.size(); ++i)
      if (list->items[i].defined()) same &= list->items[i].requires_grad == given.toListRef()[i].toTensor().requires_grad();
  }
  return same;
}

void bump(const at::Tensor& tensor, int64_t times) {
  for (int64_t i = 0; i < times; ++i) tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

// Defers the ops of a range. Returns false, without any change, if they cannot be deferred.
bool Replayer::defer_range(const DeferrableRange& range) {
  flush_if_needed();
  for (int32_t storage : range.touches) {
    CallStorage& state = storages_[storage];
    if (!state.impl || (!state.pending && state.weak.expired()) || !is_observable(state)) return false;
  }
  for (int32_t storage : range.writes)
    if (!can_defer_writes(storages_[storage])) return false;
  std::copy(stream_->tape.scalars.begin() + static_cast<ptrdiff_t>(range.scalars_begin),
            stream_->tape.scalars.begin() + static_cast<ptrdiff_t>(range.scalars_end),
            memory_.scalars.begin() + static_cast<ptrdiff_t>(range.scalars_begin));
  for (int32_t storage : range.touches) hold_memory(storage);
  for (int32_t storage : range.writes) withdraw_pointer(storage);
  advance_to(range.end);
  return true;
}

// ---- user calls ----

// Returns the recorded call at the cursor if it matches, or null.
const UserCall* Replayer::find_call(const c10::OperatorHandle& op, const Stack& stack) {
  const auto& calls = stream_->tape.user_calls;
  if (derived_) return nullptr;
  while (next_call_ < calls.size() && calls[next_call_].range.begin < cursor_) ++next_call_;
  if (next_call_ >= calls.size()) return nullptr;
  const UserCall& call = calls[next_call_];
  if (call.range.begin != cursor_ || !(call.op == op) || !(call.dispatch_state == current_dispatch_state())) return nullptr;
  newly_bound_.clear();
  size_t first = stack.size() - call.args.size();
  for (size_t i = 0; i < call.args.size(); ++i)
    if (!matches_argument(call.args[i], stack[first + i], nullptr) || !same_flags(call.args[i], stack[first + i])) {
      unbind_newly_bound();
      return nullptr;
    }
  return &call;
}

void Replayer::on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (recorder_) return recorder_->on_call(op, keys, stack);
  if (options_.record_calls && !error_ && !pass_through_ && !listening_is_paused()) {
    std::lock_guard lock(mutex_);
    const UserCall* call = find_call(op, *stack);
    if (call && defer_range(call->range)) {
      if (call->written >= 0) bump((*stack)[stack->size() - call->args.size() + call->written].toTensor(), call->bumps);
      return push_results(call->results, call->args.size(), stack);
    }
  }
  outer_run(op, keys, stack);
}

at::Tensor Replayer::as_view(const at::Tensor& base, at::Tensor out) const {
  return torch::autograd::as_view(base, out, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/true, nullptr, nullptr,
                                  views_are_made());
}

// ---- backward passes ----

bool Replayer::fits(const Backward& backward, const BackwardGraph& graph, const BackwardCall& call) {
  if (backward.range.begin != cursor_ || backward.gradients.size() != call.gradients().size() || backward.signature != graph.signature)
    return false;
  for (int32_t scalar : backward.scalars)
    if (std::memcmp(&memory_.scalars[scalar], &stream_->tape.scalars[scalar], sizeof(double)) != 0) return false;
  newly_bound_.clear();
  auto same = [&](const TensorRef& ref, const at::Tensor& tensor) {
    return tensor.defined() == ref.defined() && (!tensor.defined() || matches_tensor(ref, tensor.unsafeGetTensorImpl()));
  };
  bool fit = true;
  for (size_t i = 0; i < backward.gradients.size() && fit; ++i) fit = same(backward.gradients[i], call.gradients()[i]);
  for (size_t i = 0; i < backward.leaves.size() && fit; ++i) fit = same(backward.leaves[i].before, graph.leaves[i].grad());
  if (!fit) unbind_newly_bound();
  return fit;
}

bool Replayer::on_backward(const BackwardCall& call) {
  if (recorder_) return recorder_->on_backward(call);
  std::lock_guard lock(mutex_);
  running_backward_.reset();
  if (error_ || pass_through_ || derived_ || !same_nodes_) return false;
  auto graph = call.graph(options_.first_node);
  if (!graph) return false;
  std::shared_ptr<const Stream> current = stream_;
  for (const auto& stream : *streams_) {
    if (stream != current && shared_ops(*current, *stream) < cursor_) continue;
    follow(stream);
    for (const Backward& backward : stream_->tape.backwards) {
      if (!fits(backward, *graph, call) || !defer_range(backward.range)) continue;
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
  running_backward_.reset();
  if (recorder_) recorder_->after_backward();
}

}  // namespace tenon::capture
