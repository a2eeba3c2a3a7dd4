// Common subexpression elimination: the first of several equal ops on equal operands replaces the others.
//
// Ops stay if they are ordered (random numbers, effects, errors), if they write an operand, if a result's
// memory is overwritten later, or if two outputs would share memory. In a joint graph, forward and
// backward are treated separately, because the partitioner decides what is recomputed.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns the number of removed nodes.
size_t eliminate_common(ir::Graph& graph);

}  // namespace tenon::passes
