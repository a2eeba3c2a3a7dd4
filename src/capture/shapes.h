// What an op's results look like, without running it: libtorch's Meta kernels, and rules of our own
// where libtorch has none in C++.
#pragma once

#include <optional>
#include <vector>

#include "capture/tape.h"

namespace tenon::capture {

// One geometry per result item, in order (a default one for undefined tensors). Nothing if there is
// no rule, or if the rule says otherwise than `recorded`, a run of the same op, did.
std::optional<std::vector<Geometry>> infer_results(const TapeOp& op, const TapeOp& recorded);

}  // namespace tenon::capture
