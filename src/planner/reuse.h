// Which of a graph's copies need not be made. In the graph language an op that overwrites an
// operand works on a copy; where nobody reads the operand's old contents afterwards, it may work
// on the operand itself. Also: when each value's memory can be let go.
//
// Two values share a buffer if one is a view of the other or was made in place of it. A write is
// done in place if the buffer may be written (made inside, or an input that is written back) and
// no other value that shares an element with it is read later.
#pragma once

#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"

namespace tenon::planner {

ir::Reuse plan_reuse(const ir::Graph& graph);
ir::Reuse no_reuse(const ir::Graph& graph);  // every copy is made

}  // namespace tenon::planner
