// Reads the autograd graph of a backward before it runs.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/node.h>

#include <mutex>
#include <optional>
#include <vector>

#include "capture/backward.h"

namespace tenon::capture {

struct GraphNodes {
  std::vector<torch::autograd::Node*> all;  // Ordered as in the signature.
  std::vector<torch::autograd::Node*> leaves;
};

// Reads the graph under the roots. Returns nullopt if it contains user code, or a node that another thread created or that is older
// than `oldest`. Ages of nodes in the signature count from `first_node`.
std::optional<BackwardGraph> read_graph(const torch::autograd::edge_list& roots, uint64_t oldest, uint64_t first_node, GraphNodes& nodes);

// The same for nodes of any age, with everything that they have saved. Ages are ranks among the nodes. Returns nullopt, too, if saved
// tensors have been released or changed since.
std::optional<BackwardGraph> read_graph_with_state(const torch::autograd::edge_list& roots, GraphNodes& nodes);

// Locks leaves as libtorch does while it accumulates a gradient. Returns false, without a lock, if another thread accumulates into one of
// them: waiting could be a deadlock.
bool lock_all(const std::vector<torch::autograd::Node*>& leaves, std::vector<std::unique_lock<std::mutex>>& locks);

}  // namespace tenon::capture
