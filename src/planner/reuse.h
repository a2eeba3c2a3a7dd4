// Finds copies that need not be made, and the node at which each value dies. In the graph language an
// op that overwrites an operand works on a copy; it may work in place if nobody reads the operand's old
// contents afterwards.
//
// Two values share a buffer if one is a view of the other or was computed in place of it. A write is
// done in place if the buffer is writable (made inside the graph, or an input that is written back) and
// no other value that shares an element with it is read later.
#pragma once

#include "ir/graph/graph.h"
#include "ir/graph/reuse.h"

namespace tenon::planner {

ir::Reuse plan_reuse(const ir::Graph& graph);
// The plan in which every copy is made.
ir::Reuse no_reuse(const ir::Graph& graph);

}  // namespace tenon::planner
