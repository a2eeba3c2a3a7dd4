// What ATen makes of sizes and strides: enough of it to tell, before a graph is changed, whether
// another op gives the layout that a value's type promises.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::passes {

int64_t numel(const ir::TensorType& type);

// In order, without gaps, from the start of its memory.
bool is_plain(const ir::TensorType& type);

// Without gaps and overlaps, in any order: what ATen keeps as it is when it copies.
bool is_dense(const ir::TensorType& type);

// Strides of `aten::view(x, sizes)`; nothing where ATen refuses it, or x has no elements.
std::optional<std::vector<int64_t>> view_strides(const ir::TensorType& x, const std::vector<int64_t>& sizes);

// Strides of `aten::expand(x, sizes)`; nothing where the sizes do not fit.
std::optional<std::vector<int64_t>> expand_strides(const ir::TensorType& x, const std::vector<int64_t>& sizes);

}  // namespace tenon::passes
