#include "capture/listener.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "bridge/dispatch_keys.h"

namespace tenon::capture {
namespace {

constexpr auto kOuter = bridge::kOuterListenerKey;
constexpr auto kInner = bridge::kInnerListenerKey;

thread_local Listener* t_listener = nullptr;
thread_local int t_paused = 0;

c10::DispatchKeySet below(c10::DispatchKeySet keys, c10::DispatchKey key) {
  return keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key);
}

void outer_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (t_listener) t_listener->on_call(op, keys, stack);
  else outer_run(op, keys, stack);
}

void inner_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (t_listener) t_listener->on_op(op, keys, stack);
  else inner_run(op, keys, stack);
}

c10::DispatchKeySet registered_keys(bool wanted, Level level) {
  static const bool outer = bridge::take_dispatch_key(kOuter, torch::CppFunction::makeFromBoxedFunction<&outer_kernel>());
  static const bool inner = bridge::take_dispatch_key(kInner, torch::CppFunction::makeFromBoxedFunction<&inner_kernel>());
  (void)outer, (void)inner;
  if (!wanted) return {};
  return level == Level::both ? c10::DispatchKeySet({kOuter, kInner}) : c10::DispatchKeySet(kInner);
}

}  // namespace

ListenScope::ListenScope(Listener* listener, Level level)
    : previous_(t_listener),
      on_(registered_keys(listener != nullptr, level)),
      off_(listener ? c10::DispatchKeySet() : c10::DispatchKeySet({kOuter, kInner})) {
  t_listener = listener;
}

ListenScope::~ListenScope() { t_listener = previous_; }

Listener* current_listener() { return t_listener; }

void pause_listening(bool on) { t_paused += on ? 1 : -1; }
bool listening_is_paused() { return t_paused > 0; }

void outer_run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard hidden(kOuter);
  op.redispatchBoxed(below(keys, kOuter), stack);
}

void inner_run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard hidden(c10::DispatchKeySet({kOuter, kInner}));
  op.redispatchBoxed(below(keys, kInner), stack);
}

void inner_decompose(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  op.redispatchBoxed(below(keys, kInner), stack);
}

bool is_composite(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) && !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
}

c10::DispatchKeySet keys_above_backends() {
  return c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | c10::DispatchKeySet({kOuter, kInner});
}

}  // namespace tenon::capture
