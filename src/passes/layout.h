// ATen's rules for sizes and strides, as far as passes need them to decide whether another op returns
// the layout of a value's type. Symbolic sizes are compared as expressions where "no" is a safe answer.
#pragma once

#include <optional>

#include "ir/graph/graph.h"

namespace tenon::passes {

using Shape = ir::SizeList;

ir::Size numel(const ir::TensorType& type);

// Returns whether a tensor is contiguous with storage offset 0.
bool is_plain(const ir::TensorType& type);

// Returns whether a tensor is non-overlapping and dense; ATen preserves such a layout in copies.
bool is_dense(const ir::TensorType& type);

// Strides of `aten::view(x, sizes)`; nothing if ATen would throw for some values of the symbols, or x has no elements.
std::optional<Shape> view_strides(const ir::TensorType& x, const Shape& sizes);

// Strides of `aten::expand(x, sizes)`; nothing if the sizes do not match.
std::optional<Shape> expand_strides(const ir::TensorType& x, const Shape& sizes);

}  // namespace tenon::passes
