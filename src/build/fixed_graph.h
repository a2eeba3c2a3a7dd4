// A graph whose sizes are numbers, for readers that know no symbols: registered backends, and reproductions of a wrong result.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::build {

// Returns the graph with these values of its symbols.
ir::Graph fixed_graph(ir::Graph graph, const ir::SymbolValues& symbols);

}  // namespace tenon::build
