// Convolutions with weights that the program keeps, and what follows them: batch norm with known statistics,
// an addition, ReLU.
#pragma once

#include <vector>

#include "ir/graph/group.h"

namespace tenon::passes {

std::vector<ir::Group> find_convolutions(const ir::Graph& graph);

// The graph with images between such convolutions laid out channel by channel, as far as kernels of ours and
// convolutions alone look at them.
ir::Graph prefer_channels_last(const ir::Graph& graph);

}  // namespace tenon::passes
