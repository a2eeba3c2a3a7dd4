// The part of the replayer that lets many ops wait at once: a call of the user's or a backward that
// is known as a whole needs no look at what it does inside.
#include <torch/csrc/autograd/VariableTypeUtils.h>

#include <cstring>

#include "capture/backward.h"
#include "capture/extents.h"
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

// The ops of an extent wait from now on. False: they cannot, and nothing has changed.
bool Replayer::skip(const Extent& extent) {
  flush_if_needed();
  for (int32_t storage : extent.touches) {
    Slot& slot = slots_[storage];
    if (!slot.impl || (!slot.owed && slot.weak.expired()) || !is_ready(slot)) return false;
  }
  for (int32_t storage : extent.writes)
    if (!may_be_written_later(slots_[storage])) return false;
  std::copy(stream_->tape.scalars.begin() + static_cast<ptrdiff_t>(extent.scalars_begin),
            stream_->tape.scalars.begin() + static_cast<ptrdiff_t>(extent.scalars_end),
            memory_.scalars.begin() + static_cast<ptrdiff_t>(extent.scalars_begin));
  for (int32_t storage : extent.touches) hold(storage);
  for (int32_t storage : extent.writes) withdraw_pointer(storage);
  wait_until(extent.end);
  return true;
}

// ---- calls of the user ----

// The call that comes here, if it is the one that was recorded.
const UserCall* Replayer::known_call(const c10::OperatorHandle& op, const Stack& stack) {
  const auto& calls = stream_->tape.user_calls;
  if (derived_) return nullptr;
  while (next_call_ < calls.size() && calls[next_call_].extent.begin < cursor_) ++next_call_;
  if (next_call_ >= calls.size()) return nullptr;
  const UserCall& call = calls[next_call_];
  if (call.extent.begin != cursor_ || !(call.op == op) || !(call.around == surroundings())) return nullptr;
  bound_now_.clear();
  size_t first = stack.size() - call.args.size();
  for (size_t i = 0; i < call.args.size(); ++i)
    if (!matches_argument(call.args[i], stack[first + i], nullptr) || !same_flags(call.args[i], stack[first + i])) {
      unbind_new();
      return nullptr;
    }
  return &call;
}

void Replayer::on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (recorder_) return recorder_->on_call(op, keys, stack);
  if (options_.note_calls && !error_ && !pass_through_ && !listening_is_paused()) {
    std::lock_guard lock(mutex_);
    const UserCall* call = known_call(op, *stack);
    if (call && skip(call->extent)) {
      if (call->written >= 0) bump((*stack)[stack->size() - call->args.size() + call->written].toTensor(), call->bumps);
      return leave_results(call->results, call->args.size(), stack);
    }
  }
  outer_run(op, keys, stack);
}

at::Tensor Replayer::as_view(const at::Tensor& base, at::Tensor out) const {
  return torch::autograd::as_view(base, out, /*is_bw_differentiable=*/true, /*is_fw_differentiable=*/true, nullptr, nullptr,
                                  views_are_made());
}

// ---- backwards ----

bool Replayer::fits(const Backward& backward, const AutogradGraph& graph, const BackwardCall& call) {
  if (backward.extent.begin != cursor_ || backward.gradients.size() != call.gradients().size() || backward.signature != graph.signature)
    return false;
  for (int32_t scalar : backward.scalars)
    if (std::memcmp(&memory_.scalars[scalar], &stream_->tape.scalars[scalar], sizeof(double)) != 0) return false;
  bound_now_.clear();
  auto same = [&](const TensorRef& ref, const at::Tensor& tensor) {
    return tensor.defined() == ref.defined() && (!tensor.defined() || matches_tensor(ref, tensor.unsafeGetTensorImpl()));
  };
  bool fit = true;
  for (size_t i = 0; i < backward.gradients.size() && fit; ++i) fit = same(backward.gradients[i], call.gradients()[i]);
  for (size_t i = 0; i < backward.leaves.size() && fit; ++i) fit = same(backward.leaves[i].before, graph.leaves[i].grad());
  if (!fit) unbind_new();
  return fit;
}

bool Replayer::on_backward(const BackwardCall& call) {
  if (recorder_) return recorder_->on_backward(call);
  std::lock_guard lock(mutex_);
  running_.reset();
  if (error_ || pass_through_ || derived_ || !same_nodes_) return false;
  auto graph = call.graph(options_.first_node);
  if (!graph) return false;
  std::shared_ptr<const Stream> current = stream_;
  for (const auto& stream : *streams_) {
    if (stream != current && shared_ops(*current, *stream) < cursor_) continue;
    follow(stream);
    for (const Backward& backward : stream_->tape.backwards) {
      if (!fits(backward, *graph, call) || !skip(backward.extent)) continue;
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
  running_ = start_of(call, std::move(*graph), cursor_);
  return false;
}

void Replayer::after_backward() {
  running_.reset();
  if (recorder_) recorder_->after_backward();
}

}  // namespace tenon::capture
