// Lets the first of several equal ops on equal operands stand for the others.
//
// Not for ops that are ordered (random numbers, effects, errors) or write an operand, not where a
// result's memory is overwritten later, and never so that two outputs come to share memory. In a
// joint graph forward and backward are taken apart: what to compute again is the partition's choice.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns how many nodes went.
size_t eliminate_common(ir::Graph& graph);

}  // namespace tenon::passes
