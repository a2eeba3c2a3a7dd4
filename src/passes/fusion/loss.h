// Finds cross-entropy losses whose log-probabilities have no other use. Only the target's log-probability
// is computed per row, from the row's maximum and its sum of exponentials.
#pragma once

#include "ir/graph/group.h"

namespace tenon::passes {

std::vector<ir::Group> find_losses(const ir::Graph& graph);

}  // namespace tenon::passes
