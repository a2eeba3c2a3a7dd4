// Backwards as one thing: before autograd's engine runs on a thread that is listened to, it asks
// the listener, who may know the outcome.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

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

// From now on listeners are told. Not in a process with Python, whose engine is one of its own.
void listen_to_backwards();

}  // namespace tenon::capture
