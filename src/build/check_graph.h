// Checks of every graph before it is built.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::build {

// Throws BuildError unless the graph verifies and passes check_text.
void check_graph(const ir::Graph& graph);
// Throws InternalError if print, parse and print again give another text. Does nothing unless TENON_CHECK_TEXT is set.
void check_text(const ir::Graph& graph);

}  // namespace tenon::build
