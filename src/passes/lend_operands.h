// Lets `tenon::bank_transform_input` hand back its operand where there is nothing to turn, instead of a copy: where the result is only
// looked at, once, before the `tenon::bank_apply_` of the same layer, which looks at the operand. So the operand outlives the result.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

size_t lend_operands(ir::Graph& graph);

}  // namespace tenon::passes
