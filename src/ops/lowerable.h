// Decides which nodes an entry of pointwise.def or reductions.def can compute, and in which type and sizes.
#pragma once

#include <utility>
#include <vector>

#include "ir/graph/group.h"
#include "ops/entries.h"

namespace tenon::ops {

// Returns the op-table entry of a node that can become part of a kernel, or null.
const OpEntry* lowerable(const ir::Graph& graph, const ir::Node& node);

ir::DType result_type(const ir::Graph& graph, const ir::Node& node);  // Of the first result that is used.
// Returns the type in which an entry computes this node; bf16 and f16 are computed in f32.
ir::DType compute_type(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry);
ir::DType register_type(ir::DType dtype);
bool has_registers(ir::DType dtype);  // Returns whether kernels support the type.
bool has_elements(const ir::TensorType& type);
// Returns the type to which ATen converts the operands of a comparison first.
ir::DType operand_type(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry);

// Sizes of an entry's iteration space, and its reduced dimensions (empty if it reduces nothing).
const ir::SizeList& sizes_of(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry);
std::vector<bool> reduced_dims(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry);

// Nesting depth of an entry's reductions: the number of loops needed before its results are known.
int depth(const OpEntry& entry);

// Values that a node defines: its results (kNoValue for a list), then written operands that it does not return.
std::vector<ir::ValueId> results_of(const ir::Node& node);

bool is_absent(const ir::Argument& argument);  // True for None and for an undefined tensor.

}  // namespace tenon::ops
