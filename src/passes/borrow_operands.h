// Lets `tenon::bank_transform_input` return its operand instead of a copy if no adapter transforms it. This needs a result that is only
// read, once, before the `tenon::bank_apply_` of the same layer, which reads the operand; so the operand outlives the result.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

size_t borrow_operands(ir::Graph& graph);

}  // namespace tenon::passes
