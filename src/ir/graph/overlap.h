// Overlap tests for strided tensors on one storage.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir {

// Returns false only if the tensors certainly share no element. The result is exact for tensors of
// up to 4096 elements and for equal strides; otherwise the address ranges are compared.
bool may_overlap(const FixedType& a, const FixedType& b);

// Returns false only if certainly no two elements of the tensor share memory.
bool may_overlap_itself(const FixedType& type);

}  // namespace tenon::ir
