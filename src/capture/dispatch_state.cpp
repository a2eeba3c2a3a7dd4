#include "capture/dispatch_state.h"

#include <ATen/autocast_mode.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/SequenceNumber.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace tenon::capture {

DispatchState current_dispatch_state() {
  const auto& keys = c10::impl::tls_local_dispatch_key_set();
  const auto& autograd = c10::AutogradState::get_tls_state();
  const auto& context = at::globalContext();
  uint32_t flags = 0;
  for (bool flag : {autograd.get_grad_mode(), autograd.get_inference_mode(), autograd.get_view_replay_enabled(),
                    autograd.get_grad_layout_enforcement_enabled(), context.deterministicAlgorithms(), context.userEnabledMkldnn(),
                    context.userEnabledFlashSDP(), context.userEnabledMathSDP(), context.userEnabledMemEfficientSDP()})
    flags = flags << 1 | static_cast<uint32_t>(flag);
  return {keys.included_.raw_repr(), keys.excluded_.raw_repr(), flags, c10::get_default_dtype_as_scalartype(),
          at::autocast::get_autocast_dtype(at::kCPU)};
}

bool can_record_calls(const DispatchState& state) {
  return !at::GradMode::is_enabled() && c10::DispatchKeySet(c10::DispatchKeySet::RAW, state.excluded).has(c10::DispatchKey::AutocastCPU);
}

uint64_t nodes_made() { return at::sequence_number::peek(); }

}  // namespace tenon::capture
