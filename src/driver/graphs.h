// Checks of every graph before it is built.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::driver {

// Throws BuildError unless the graph verifies and passes check_text.
void check_graph(const ir::Graph& graph);
// With TENON_CHECK_TEXT set, throws InternalError unless print, parse and print again give the same text.
void check_text(const ir::Graph& graph);

}  // namespace tenon::driver
