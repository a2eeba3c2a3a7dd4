// Products with a matrix that the program keeps: its weights.
#pragma once

#include <vector>

#include "ir/graph/group.h"

namespace tenon::passes {

std::vector<ir::Group> find_products(const ir::Graph& graph);

}  // namespace tenon::passes
