// The rules of the graph language. verify() throws UserError(verify) at the first one broken:
// every value is defined once and before its uses; types are well formed; an alias names an operand
// of the node that makes it; writes name operands and keep their type; write-backs name inputs.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::ir {

void verify(const Graph& graph);

}  // namespace tenon::ir
