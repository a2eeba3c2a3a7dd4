// Prints a graph as Graphviz text: one box per op, views dashed, writes red.
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace tenon::ir {

std::string dot(const Graph& graph);

}  // namespace tenon::ir
