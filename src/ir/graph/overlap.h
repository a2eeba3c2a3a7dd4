// Do two strided tensors on one storage share an element?
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir {

// False only if it is certain that they share none. Exact for tensors of up to 4096 elements and
// for equal strides; by their hulls otherwise.
bool may_overlap(const TensorType& a, const TensorType& b);

// False only if it is certain that no two elements of it share memory.
bool may_overlap_itself(const TensorType& type);

}  // namespace tenon::ir
