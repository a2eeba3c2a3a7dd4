// Interception of backward passes. On a thread with a listener, autograd's engine offers each `backward()` to the listener
// first, which may serve it without running a node. On a thread without one, a backward through the results of a call that has
// returned is run by that call's BackwardRunner.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "capture/tape_ops.h"

namespace tenon::capture {

// An autograd graph without user code: no hooks and no custom functions.
struct BackwardGraph {
  std::vector<uint64_t> signature;  // Node types, sequence numbers and edges in traversal order.
  std::vector<at::Tensor> leaves;
  std::vector<at::Tensor> saved;  // The tensors that the nodes have saved; only for a backward after the call.
};

// One call to `backward()`.
class BackwardCall {
 public:
  virtual ~BackwardCall() = default;
  // Returns nullopt if the graph contains user code or nodes that another thread created, that are older than
  // `first_node`, or whose saved tensors an earlier backward may have released.
  virtual std::optional<BackwardGraph> graph(uint64_t first_node) const = 0;
  // The same for a backward after the call, whose nodes may have any age. The signature then contains all that the nodes have
  // saved besides tensors.
  virtual std::optional<BackwardGraph> graph_with_state() const = 0;
  // Locks the leaves of the graph that was read last, as libtorch does while it accumulates gradients. Returns false if another thread
  // holds a lock.
  virtual bool lock_leaves(std::vector<std::unique_lock<std::mutex>>& locks) const = 0;
  virtual const std::vector<at::Tensor>& gradients() const = 0;
  virtual bool keeps_graph() const = 0;
  // Releases the nodes' saved tensors unless the graph is kept.
  virtual void release() const = 0;
};

// The identity, geometry and version of a tensor at one moment; the tensor is held weakly.
struct TensorSnapshot {
  c10::weak_intrusive_ptr<c10::TensorImpl> object{c10::intrusive_ptr<c10::TensorImpl>()};
  c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
  Geometry geometry;
  int64_t version = 0;

  bool defined() const { return storage._unsafe_get_target() != nullptr; }
};

// The state before a backward pass that is about to run.
struct BackwardStart {
  size_t op = 0;  // Index of the next op on the tape.
  DispatchState dispatch_state;
  BackwardGraph graph;
  std::vector<TensorSnapshot> gradients;  // The gradients of the roots.
  std::vector<TensorSnapshot> before;     // The gradients of the leaves.
  std::vector<TensorSnapshot> saved;      // The tensors that the nodes have saved.
};

// Returns nullopt if a gradient is not a plain CPU tensor.
std::optional<BackwardStart> start_of(const BackwardCall& call, BackwardGraph graph, size_t op);

// Runs backward passes that start after a call has returned.
class BackwardRunner {
 public:
  virtual ~BackwardRunner() = default;
  // Must call `body`, which runs the backward, once.
  virtual void run_backward(const std::function<void()>& body) = 0;
};

// Notes that a call on this thread created the autograd nodes [first, end). The last few calls of a thread are remembered.
void remember_nodes(const std::shared_ptr<BackwardRunner>& runner, uint64_t first, uint64_t end);

// Installs the intercepting engine. A process with Python keeps Python's engine, and backward passes are not intercepted there.
void listen_to_backwards();

}  // namespace tenon::capture
