// Do two strided tensors on one storage share an element?
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir {

// False only if it is certain that they share none. Exact when both have the same strides,
// by their hulls otherwise.
bool may_overlap(const TensorType& a, const TensorType& b);

}  // namespace tenon::ir
