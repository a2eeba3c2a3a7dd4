// Products with a matrix that the program keeps: its weights.
#pragma once

#include <vector>

#include "ir/graph/group.h"

namespace tenon::passes {

std::vector<ir::Group> find_products(const ir::Graph& graph);

// After fusion: products of the same few rows (ir::kFewRows) stand one behind the other where nothing hinders it, so that one loop
// can serve them.
ir::Graph gather_products(ir::Graph graph, const std::vector<ir::Group>& groups);

}  // namespace tenon::passes
