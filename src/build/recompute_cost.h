// The time that a node takes when the backward computes it again.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::build {

// Nanoseconds on one core; infinity if the node must not run twice or if its time is unknown.
double recompute_time(const ir::Graph& graph, const ir::Node& node);

}  // namespace tenon::build
