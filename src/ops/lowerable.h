// Which nodes of a graph their row of pointwise.def or reductions.def can compute, and how.
#pragma once

#include <utility>
#include <vector>

#include "ir/graph/group.h"
#include "ops/rows.h"

namespace tenon::ops {

// The row of a node that can become part of a kernel, or null.
const Row* lowerable(const ir::Graph& graph, const ir::Node& node);

// The type in which a row computes on this node; bf16 and f16 are computed in f32.
ir::DType compute_type(const ir::Graph& graph, const ir::Node& node, const Row& row);
ir::DType register_type(ir::DType dtype);
bool has_registers(ir::DType dtype);  // at all
bool has_elements(const ir::TensorType& type);
// The type to which ATen converts the operands of a comparison first.
ir::DType operand_type(const ir::Graph& graph, const ir::Node& node, const Row& row);

// Sizes over which a row computes, and which of them it reduces (none: empty).
const std::vector<int64_t>& sizes_of(const ir::Graph& graph, const ir::Node& node, const Row& row);
std::vector<bool> reduced_dims(const ir::Graph& graph, const ir::Node& node, const Row& row);

// Reductions of reductions: how often a row must be gone over before its results are known.
int depth(const Row& row);

// The values that a node of a row defines, kNoValue where it has none: results, then what it writes besides.
std::vector<ir::ValueId> results_of(const ir::Node& node);

bool is_absent(const ir::Argument& argument);  // None, or no tensor

}  // namespace tenon::ops
