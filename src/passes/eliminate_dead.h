// Dead code elimination: drops nodes whose values nobody reads. Ordered nodes (random, effects) stay.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns the number of removed nodes and results. Values keep their ids; unused inputs stay.
size_t eliminate_dead(ir::Graph& graph);

}  // namespace tenon::passes
