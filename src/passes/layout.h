// ATen's rules for sizes and strides, as far as passes need them to decide whether another op returns
// the layout of a value's type.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::passes {

using Shape = std::vector<int64_t>;

int64_t numel(const ir::TensorType& type);

// Returns whether a tensor is contiguous with storage offset 0.
bool is_plain(const ir::TensorType& type);

// Returns whether a tensor is non-overlapping and dense; ATen preserves such a layout in copies.
bool is_dense(const ir::TensorType& type);

// Strides of `aten::view(x, sizes)`; nothing if ATen would throw or x has no elements.
std::optional<std::vector<int64_t>> view_strides(const ir::TensorType& x, const std::vector<int64_t>& sizes);

// Strides of `aten::expand(x, sizes)`; nothing if the sizes do not match.
std::optional<std::vector<int64_t>> expand_strides(const ir::TensorType& x, const std::vector<int64_t>& sizes);

}  // namespace tenon::passes
