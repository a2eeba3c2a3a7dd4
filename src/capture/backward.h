// Backwards as one thing: before autograd's engine runs on a thread that is listened to, it asks
// the listener, who may know the outcome.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "capture/tape_ops.h"

namespace tenon::capture {

// An autograd graph in which nothing is the user's own: no hooks, no custom functions.
struct AutogradGraph {
  std::vector<uint64_t> signature;  // types of nodes, when each was made, and edges, as a walk meets them
  std::vector<at::Tensor> leaves;
};

// One call of `backward()`.
class BackwardCall {
 public:
  virtual ~BackwardCall() = default;
  // Nothing if there is something of the user's, or nodes that other threads made, that were made
  // before `first_node`, or that a backward may have emptied.
  virtual std::optional<AutogradGraph> graph(uint64_t first_node) const = 0;
  virtual const std::vector<at::Tensor>& gradients() const = 0;
  virtual bool keeps_graph() const = 0;
  // What nodes saved, if the graph is not kept.
  virtual void release() const = 0;
};

// A tensor as it was, held weakly.
struct Glimpse {
  c10::weak_intrusive_ptr<c10::TensorImpl> object{c10::intrusive_ptr<c10::TensorImpl>()};
  c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
  Geometry geometry;
  int64_t version = 0;

  bool defined() const { return storage._unsafe_get_target() != nullptr; }
};

// What a backward that runs found.
struct BackwardStart {
  size_t op = 0;  // where on the tape
  AutogradGraph graph;
  std::vector<Glimpse> gradients;  // that it starts from
  std::vector<Glimpse> before;     // the gradients of the leaves
};

// Nothing if there are tensors that are not plain ones.
std::optional<BackwardStart> start_of(const BackwardCall& call, AutogradGraph graph, size_t op);

// From now on listeners are told. Not in a process with Python, whose engine is one of its own.
void listen_to_backwards();

}  // namespace tenon::capture
