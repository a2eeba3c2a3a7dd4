// A cross-entropy whose log-probabilities nobody else reads: of each row only the target's is computed,
// from the row's greatest element and the sum of exponentials, instead of all of them.
#pragma once

#include "ir/graph/group.h"

namespace tenon::passes {

std::vector<ir::Group> find_losses(const ir::Graph& graph);

}  // namespace tenon::passes
