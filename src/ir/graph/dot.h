// Graph to Graphviz text: one box an op, views dashed, writes red.
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace tenon::ir {

std::string dot(const Graph& graph);

}  // namespace tenon::ir
