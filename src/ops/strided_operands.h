// Strides of an entry's operands that are not aligned with the last dimensions.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/group.h"
#include "ops/entries.h"

namespace tenon::ops {

// Returns nothing if the node's operands do not fit the entry.
std::optional<std::vector<ir::StridedOperand>> strided_operands_of(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry);

// Returns the ranges that the index operands of an entry must be in.
std::vector<ir::IndexRange> index_ranges_of(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry);

// Resolves a dimension for a tensor of this rank.
std::optional<size_t> resolve(const Expression::DimRef& dim, const ir::Node& node, size_t rank);

}  // namespace tenon::ops
