#include "capture/extents.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "capture/stream.h"

namespace tenon::capture {

std::optional<Extent> extent_of(const Tape& tape, size_t begin, size_t end, const std::vector<int32_t>& given) {
  TapeMark first = mark_at(tape, begin), last = mark_at(tape, end);
  Extent extent{begin, end, first.scalars, last.scalars, {}, {}};
  auto is_given = [&](size_t s) { return std::find(given.begin(), given.end(), static_cast<int32_t>(s)) != given.end(); };
  for (size_t s = first.storages; s < last.storages; ++s)
    if (tape.storages[s].born < static_cast<int32_t>(begin) && !is_given(s)) return std::nullopt;
  auto add = [&](std::vector<int32_t>& list, int32_t storage) {
    bool from_before = tape.storages[storage].born < static_cast<int32_t>(begin);
    if (from_before && std::find(list.begin(), list.end(), storage) == list.end()) list.push_back(storage);
  };
  for (size_t i = begin; i < end; ++i) {
    const TapeOp& op = tape.ops[i];
    if (op.immediate || op.absolute_offset) return std::nullopt;
    for_each_operand(op.args, [&](const TensorRef& ref) {
      if (ref.defined()) add(extent.touches, ref.storage);
    });
    for (const TapeWrite& write : op.writes) add(extent.writes, write.ref.storage);
  }
  return extent;
}

Surroundings surroundings() {
  const auto& keys = c10::impl::tls_local_dispatch_key_set();
  const auto& autograd = c10::AutogradState::get_tls_state();
  const auto& context = at::globalContext();
  uint32_t flags = 0;
  for (bool flag :
       {autograd.get_grad_mode(), autograd.get_inference_mode(), autograd.get_view_replay_enabled(), context.deterministicAlgorithms(),
        context.userEnabledMkldnn(), context.userEnabledFlashSDP(), context.userEnabledMathSDP(), context.userEnabledMemEfficientSDP()})
    flags = flags << 1 | static_cast<uint32_t>(flag);
  return {keys.included_.raw_repr(), keys.excluded_.raw_repr(), flags, c10::get_default_dtype_as_scalartype()};
}

bool can_note_calls(const Surroundings& around) {
  return !at::GradMode::is_enabled() && c10::DispatchKeySet(c10::DispatchKeySet::RAW, around.excluded).has(c10::DispatchKey::AutocastCPU);
}

uint64_t nodes_made() { return at::sequence_number::peek(); }

}  // namespace tenon::capture
