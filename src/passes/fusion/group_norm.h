// A group norm is a layer norm of its groups, then a weight and a bias for each channel.
#pragma once

#include "ir/graph/group.h"

namespace tenon::passes {

std::vector<ir::Group> find_group_norms(const ir::Graph& graph);

}  // namespace tenon::passes
