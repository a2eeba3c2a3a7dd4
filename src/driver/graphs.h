// What every graph goes through before it is built.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::driver {

// Throws BuildError unless it verifies and, under TENON_CHECK_TEXT, survives its text form.
void check_graph(const ir::Graph& graph);
void check_text(const ir::Graph& graph);  // under test

}  // namespace tenon::driver
