// Shape inference: the geometry of an op's results without running it, by libtorch's Meta kernels, or by rules of our own
// for ops that have no Meta kernel in C++.
#pragma once

#include <optional>
#include <vector>

#include "capture/tape.h"

namespace tenon::capture {

// Returns one geometry per result item, in order (a default one for undefined tensors). Returns nullopt if there is no rule,
// or if the rule contradicts `recorded`, a run of the same op.
std::optional<std::vector<Geometry>> infer_results(const TapeOp& op, const TapeOp& recorded);

}  // namespace tenon::capture
