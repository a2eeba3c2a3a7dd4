// Finds nodes that can become one kernel: pointwise ops over the same sizes and reductions of the
// same dimensions of them, as long as nothing outside needs one of their values before the last of
// them.
#pragma once

#include "ir/graph/group.h"

namespace tenon::passes {

// Kernels, then products and calls. `apart`: every group has one node, and there are no calls. `keeps_weights`: products with what
// the program keeps are groups too.
std::vector<ir::Group> find_groups(const ir::Graph& graph, bool apart = false, bool keeps_weights = false);

// The graph with each group as one node `tenon::fused` where its last node stood; its first
// argument is the group's number.
ir::Graph fuse(const ir::Graph& graph, const std::vector<ir::Group>& groups);

}  // namespace tenon::passes
