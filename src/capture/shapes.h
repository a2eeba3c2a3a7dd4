// Shape inference: the geometry of an op's results without running it, by libtorch's Meta kernels, or by rules of our own
// for ops that have no Meta kernel in C++.
#pragma once

#include <optional>
#include <vector>

#include "capture/tape.h"

namespace tenon::capture {

// Whether there is a rule that gives the geometry which `recorded`, a run of the op, had.
bool has_shape_rule(const TapeOp& recorded);

// Returns one geometry per result item, in order (a default one for undefined tensors), or nullopt if the rule does not cover the operands.
std::optional<std::vector<Geometry>> infer_results(const TapeOp& op);

}  // namespace tenon::capture
