// The two listeners on the dispatcher. Their dispatch keys are taken on first use (bridge/dispatch_keys.h).
//
// Outer: above autocast and autograd; sees the ops as the user's C++ calls them.
// Inner: below autograd and above the backends; sees the ops that remain after autocast, autograd and decomposition, in the
// forward and in the backward.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace tenon::capture {

using torch::jit::Stack;

class BackwardCall;

class Listener {
 public:
  virtual ~Listener() = default;
  // Both must run the op (outer_run, inner_run, inner_decompose) or push its results on the stack.
  virtual void on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) = 0;
  virtual void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) = 0;
  // Called before a backward runs. Returns true if the listener has served it completely. Otherwise the backward runs, and
  // `after_backward` follows unless it throws.
  virtual bool on_backward(const BackwardCall&) { return false; }
  virtual void after_backward() {}
};

enum class Level : uint8_t { inner, both };

// Enables a listener on this thread for the scope's lifetime; nests. nullptr disables listening.
class ListenScope {
 public:
  explicit ListenScope(Listener* listener, Level level = Level::both);
  ~ListenScope();
  ListenScope(const ListenScope&) = delete;
  ListenScope& operator=(const ListenScope&) = delete;

 private:
  Listener* previous_;
  c10::impl::IncludeDispatchKeyGuard on_;
  c10::impl::ExcludeDispatchKeyGuard off_;
};

// The listener of this thread, or nullptr.
Listener* current_listener();

// Pauses recording and replay of this thread's ops. Nests.
void pause_listening(bool on);
bool listening_is_paused();

// Run the op below a listener. The ops that an outer call dispatches stay visible to the inner listener; the ops that an
// inner op dispatches are hidden.
void outer_run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);
void inner_run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);
// Runs a composite op so that the ops of its decomposition reach the inner listener.
void inner_decompose(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);
bool is_composite(const c10::OperatorHandle& op);

// The dispatch keys to exclude while a graph runs below autograd.
c10::DispatchKeySet keys_above_backends();

}  // namespace tenon::capture
