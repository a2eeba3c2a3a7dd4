// The two listeners on the dispatcher. This file and its .cpp are the only ones that know which
// dispatch keys Tenon lives on (free in libtorch 2.13; checked when first used).
//
// Outer: above autocast and autograd, sees the ops as the user's C++ made them.
// Inner: below autograd, above the backends, sees what is left after autocast, autograd and
// composites, in the forward and in the backward.
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
  // Each must run the op (outer_run, inner_run, inner_decompose) or leave its results on the stack.
  virtual void on_call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) = 0;
  virtual void on_op(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) = 0;
  // A backward is about to run. True: all of it has been done; else it runs, and `after_backward`
  // follows unless it throws.
  virtual bool on_backward(const BackwardCall&) { return false; }
  virtual void after_backward() {}
};

enum class Level : uint8_t { inner, both };

// Switches listening on for this thread while it lives; nests. nullptr switches it off.
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

// What this thread does meanwhile is not to be recorded. Nests.
void pause_listening(bool on);
bool listening_is_paused();

// Run the op below a listener: what an outer call does inside stays visible to the inner listener,
// what an inner op does inside is hidden.
void outer_run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);
void inner_run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);
// Run a composite op so that its parts come back to the inner listener.
void inner_decompose(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);
bool is_composite(const c10::OperatorHandle& op);

// The keys that must be off while a graph is executed below autograd.
c10::DispatchKeySet keys_above_backends();

}  // namespace tenon::capture
