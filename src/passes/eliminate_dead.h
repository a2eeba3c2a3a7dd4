// Drops nodes whose values nobody reads. Ordered nodes (random, effects) stay.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns how many nodes went. Values keep their numbers; inputs that nobody reads stay.
size_t eliminate_dead(ir::Graph& graph);

}  // namespace tenon::passes
