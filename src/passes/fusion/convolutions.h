// Finds convolutions whose weights are state of the program, together with their epilogue: batch norm with
// known statistics, an addition, ReLU.
#pragma once

#include <vector>

#include "ir/graph/group.h"

namespace tenon::passes {

std::vector<ir::Group> find_convolutions(const ir::Graph& graph);

// Returns the graph with channels_last strides for images that only such convolutions and kernels of ours
// produce and read.
ir::Graph prefer_channels_last(const ir::Graph& graph);

}  // namespace tenon::passes
