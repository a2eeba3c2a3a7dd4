// How a kernel computes each node of a graph. Decided once per graph; fusion and lowering read it.
#pragma once

#include <variant>
#include <vector>

#include "ops/concat_pool.h"
#include "ops/data_movement.h"
#include "ops/lowerable.h"

namespace tenon::ops {

// An op-table entry, a concatenation, a pooling or a data movement; std::monostate for a node that no kernel can compute.
using Lowering = std::variant<std::monostate, const OpEntry*, Concatenation, Pooling, DataMovement>;
Lowering lowering_of(const ir::Graph& graph, const ir::Node& node);

// One per node.
using Lowerings = std::vector<Lowering>;
Lowerings lowerings_of(const ir::Graph& graph);

// Returns whether an op-table entry computes the node.
inline bool uses_entry(const Lowering& lowering) { return std::holds_alternative<const OpEntry*>(lowering); }

}  // namespace tenon::ops
