// Which nodes of a graph their row of pointwise.def can compute, and in which types.
#pragma once

#include "ir/graph/group.h"
#include "ops/pointwise.h"

namespace tenon::ops {

// The row of a node that can be computed element by element, or null.
const Pointwise* lowerable(const ir::Graph& graph, const ir::Node& node);

// The type in which a row computes on this node; bf16 and f16 are computed in f32.
ir::DType compute_type(const ir::Graph& graph, const ir::Node& node, const Pointwise& row);
ir::DType register_type(ir::DType dtype);

// The one value that a pointwise node defines.
ir::ValueId result_of(const ir::Node& node);

}  // namespace tenon::ops
