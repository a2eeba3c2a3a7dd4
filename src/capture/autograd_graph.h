// Reads the autograd graph of a backward before it runs.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/node.h>

#include <mutex>
#include <optional>
#include <vector>

#include "capture/backward.h"

namespace tenon::capture {

// Reads the graph under the roots. Returns nullopt if it contains user code, or a node that another thread created or that is older
// than `oldest`. Ages of nodes in the signature count from `first_node`. `nodes` gets the nodes in the order of the signature.
std::optional<BackwardGraph> read_graph(const torch::autograd::edge_list& roots, uint64_t oldest, uint64_t first_node,
                                        std::vector<torch::autograd::Node*>& nodes);

// The same for nodes of any age, with everything that they have saved. Ages are ranks among the nodes. Returns nullopt, too, if saved
// tensors have been released or changed since.
std::optional<BackwardGraph> read_graph_with_state(const torch::autograd::edge_list& roots, std::vector<torch::autograd::Node*>& nodes);

// Locks the leaves among the nodes, as libtorch does while it accumulates a gradient. Returns false, without a lock, if another thread
// accumulates into one of them: waiting could be a deadlock.
bool lock_leaves(const std::vector<torch::autograd::Node*>& nodes, std::vector<std::unique_lock<std::mutex>>& locks);

}  // namespace tenon::capture
