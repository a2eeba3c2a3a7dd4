#include "capture/backward_event.h"

#include <algorithm>

#include "capture/deferrable_range.h"
#include "capture/dispatch_state.h"
#include "capture/stream.h"
#include "capture/tensors.h"

namespace tenon::capture {
namespace {

TensorSnapshot snapshot_of(const at::Tensor& tensor) {
  TensorSnapshot snapshot;
  if (!tensor.defined()) return snapshot;
  snapshot.object = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr());
  snapshot.storage = tensor.unsafeGetTensorImpl()->unsafe_storage().getWeakStorageImpl();
  snapshot.geometry = geometry_of(tensor);
  snapshot.version = tensor.is_inference() ? 0 : tensor._version();
  return snapshot;
}

bool is_plain_gradient(const at::Tensor& tensor) {
  return !tensor.defined() || (is_plain(tensor.unsafeGetTensorImpl()) && !tensor.requires_grad() && !tensor.is_inference());
}

// Undefined if the tape does not have the storage.
TensorRef ref_of(const TensorSnapshot& snapshot, const FindStorage& find) {
  auto storage = find(snapshot.storage._unsafe_get_target());
  if (!storage) return {};
  TensorRef ref{storage->id, snapshot.geometry};
  ref.geometry.offset -= storage->shift / static_cast<int64_t>(c10::elementSize(ref.geometry.dtype));
  return ref;
}

}  // namespace

std::optional<BackwardGraph> graph_of(const BackwardCall& call, const RecordOptions& options) {
  if (forward_mode_is_active()) return std::nullopt;  // Tensors may carry tangents.
  return options.is_backward ? call.graph_with_state() : call.graph(options.first_node);
}

std::optional<BackwardStart> start_of(const BackwardCall& call, BackwardGraph graph, size_t op) {
  BackwardStart start;
  start.op = op;
  start.dispatch_state = current_dispatch_state();
  for (const at::Tensor& gradient : call.gradients()) {
    if (!gradient.defined() || !is_plain(gradient.unsafeGetTensorImpl())) return std::nullopt;
    start.gradients.push_back(snapshot_of(gradient));
  }
  for (const at::Tensor& leaf : graph.leaves) {
    if (!is_plain_gradient(leaf.grad())) return std::nullopt;
    start.before.push_back(snapshot_of(leaf.grad()));
  }
  // Ops that read other tensors than plain ones run at once, so their backward is not deferred.
  for (const at::Tensor& saved : graph.saved)
    start.saved.push_back(is_plain(saved.unsafeGetTensorImpl()) ? snapshot_of(saved) : TensorSnapshot{});
  graph.saved.clear();  // Autograd looks at reference counts.
  start.graph = std::move(graph);
  return start;
}

std::optional<Backward> describe_backward(BackwardStart start, const Tape& tape, const FindStorage& find) {
  Backward event{.dispatch_state = start.dispatch_state, .signature = std::move(start.graph.signature)};
  std::vector<int32_t> given;  // Storages that the program passes to the backward.
  for (const TensorSnapshot& gradient : start.gradients) {
    event.gradients.push_back(ref_of(gradient, find));
    if (!event.gradients.back().defined()) return std::nullopt;
    given.push_back(event.gradients.back().storage);
  }
  for (const TensorSnapshot& saved : start.saved) {
    event.saved.push_back(ref_of(saved, find));
    if (event.saved.back().defined()) given.push_back(event.saved.back().storage);
  }
  std::vector<int32_t> gradients;
  for (size_t i = 0; i < start.before.size(); ++i) {
    const TensorSnapshot& before = start.before[i];
    const at::Tensor& gradient = start.graph.leaves[i].grad();
    Backward::Leaf& leaf = event.leaves.emplace_back();
    if (!gradient.defined()) continue;
    if (!is_plain_gradient(gradient)) return std::nullopt;
    leaf.after = ref_of(snapshot_of(gradient), find);
    if (!leaf.after.defined()) return std::nullopt;
    leaf.bumps = gradient._version();
    leaf.may_change_metadata = gradient.unsafeGetTensorImpl()->allow_tensor_metadata_change();
    bool is_shared = std::find(gradients.begin(), gradients.end(), leaf.after.storage) != gradients.end();
    gradients.push_back(leaf.after.storage);
    if (!before.defined()) {
      // The version counter of a gradient that is also something else belongs to both.
      if (is_shared || tape.storages[leaf.after.storage].made_by < static_cast<int32_t>(start.op)) return std::nullopt;
      continue;
    }
    leaf.before = ref_of(before, find);
    leaf.bumps -= before.version;
    leaf.same = before.object._unsafe_get_target() == gradient.unsafeGetTensorImpl();
    if (!leaf.before.defined() || !leaf.same) return std::nullopt;
    given.push_back(leaf.before.storage);
  }
  auto range = deferrable_range(tape, start.op, tape.ops.size(), given);
  if (!range) return std::nullopt;
  for (int32_t storage : range->writes)
    if (std::find(gradients.begin(), gradients.end(), storage) == gradients.end()) return std::nullopt;
  event.range = std::move(*range);
  for (size_t i = 0; i < event.range.begin; ++i) {
    const TapeOp& op = tape.ops[i];
    if (op.no_grad || op.in_backward) continue;  // The op created no node of the graph.
    for (size_t s = op.before.scalars; s < position_at(tape, i + 1).scalars; ++s) event.scalars.push_back(static_cast<int32_t>(s));
  }
  return event;
}

}  // namespace tenon::capture
