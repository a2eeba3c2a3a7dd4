// Rewrites a group norm as a layer norm over its groups, followed by a weight and a bias per channel.
#pragma once

#include "ir/graph/group.h"

namespace tenon::passes {

std::vector<ir::Group> find_group_norms(const ir::Graph& graph);

}  // namespace tenon::passes
