// Gives equivalent ops one spelling, so that later passes and backends have fewer cases:
//   aten::mul.Scalar(x, 2.0)   ->  aten::mul.Tensor(x, num(2.0, f64))
//   aten::add_.Tensor(x, y)    ->  aten::add.Tensor(x, y)
//   aten::_to_copy to the same element type, aten::copy_ over a whole tensor  ->  aten::clone, or aten::_to_copy
//
// An op that overwrites memory of a graph input stays as it is, since in place is the best option there.
// An op whose functional form would return another element type or layout stays as well.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns the number of changed nodes.
size_t canonicalise(ir::Graph& graph);

}  // namespace tenon::passes
