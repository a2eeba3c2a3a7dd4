// Finds nodes that can become one kernel: pointwise ops over the same sizes and reductions over the
// same dimensions, as long as no node outside the group reads one of their values before the group's
// last node.
#pragma once

#include "ir/graph/group.h"
#include "ops/lowering.h"

namespace tenon::passes {

// Returns kernels, then products and calls. `unfused`: every group has one node, and there are no calls. `keeps_weights`: products and
// convolutions with weights that are state of the program are groups too.
std::vector<ir::Group> find_groups(const ir::Graph& graph, const ops::Lowerings& lowerings, bool unfused, bool keeps_weights);

// Returns the graph with each group replaced by one node `tenon::fused` at the position of its last
// node; the first argument is the group's index.
ir::Graph fuse(const ir::Graph& graph, const std::vector<ir::Group>& groups);

}  // namespace tenon::passes
