// Where a row's operands lie that are not simply aligned with the last dimensions.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/group.h"
#include "ops/rows.h"

namespace tenon::ops {

// Nothing if the node's operands do not fit the row.
std::optional<std::vector<ir::Placed>> placed_of(const ir::Graph& graph, const ir::Node& node, const Row& row);

// What the indices of a row must be.
std::vector<ir::Range> ranges_of(const ir::Graph& graph, const ir::Node& node, const Row& row);

// A dimension as a number, of a tensor of this rank.
std::optional<size_t> resolve(const Expression::Dim& dim, const ir::Node& node, size_t rank);

}  // namespace tenon::ops
