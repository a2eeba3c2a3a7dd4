// Finds matrix products whose right operand is state of the program: its weights.
#pragma once

#include <vector>

#include "ir/graph/group.h"
#include "ops/lowering.h"

namespace tenon::passes {

std::vector<ir::Group> find_products(const ir::Graph& graph, const ops::Lowerings& lowerings);

// Reorders a fused graph so that products of the same small left operand (at most ir::kMaxGemvRows rows) are adjacent where dependencies
// allow it. One parallel loop can then compute them together.
ir::Graph gather_products(ir::Graph graph, const std::vector<ir::Group>& groups);

}  // namespace tenon::passes
