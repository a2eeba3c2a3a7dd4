// Gives ops that do the same one spelling, so that later passes and backends meet fewer of them:
//   aten::mul.Scalar(x, 2.0)   ->  aten::mul.Tensor(x, num(2.0, f64))
//   aten::add_.Tensor(x, y)    ->  aten::add.Tensor(x, y)
//   aten::_to_copy to the same element type, aten::copy_ over a whole tensor  ->  aten::clone, or aten::_to_copy
//
// An op that overwrites memory which the graph was given stays as it is: in place is the best that can
// be done there. So does one whose functional twin would give another element type or layout.
#pragma once

#include "ir/graph/graph.h"

namespace tenon::passes {

// Returns how many nodes are spelled differently now.
size_t canonicalise(ir::Graph& graph);

}  // namespace tenon::passes
