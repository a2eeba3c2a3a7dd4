// Shape rules of our own, for ops that have no Meta kernel in C++.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "capture/tape.h"

namespace tenon::capture {

using Geometries = std::vector<Geometry>;
using MaybeGeometries = std::optional<Geometries>;

// Returns one geometry per result item (a default one for undefined tensors), or nullopt if the rule does not cover the operands.
using ShapeFunction = MaybeGeometries (*)(const TapeOp&);

// The rule for an op, or null.
ShapeFunction own_shape_rule(const std::string& name);

// A new tensor in the default layout.
Geometry contiguous(at::ScalarType dtype, DimList sizes);

inline const Geometry& operand(const TapeOp& op, size_t i) { return std::get<TensorRef>(op.args[i]).geometry; }

}  // namespace tenon::capture
