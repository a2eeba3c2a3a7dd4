// One graph for many sizes, found from graphs of the same program at several sizes.
//
// Sizes of inputs that differ between the graphs become symbols. Every other integer that differs must be an expression over the
// symbols that explains all graphs. Such an expression is a guess until a graph of another size confirms it. Therefore nobody uses it
// unconfirmed: each new size has a graph of its own numbers, and symbols_of compares all of them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace tenon::ir {

// Whether two graphs differ in nothing but integers: sizes, strides, offsets and integer arguments.
bool same_structure(const Graph& a, const Graph& b);

// Returns a graph with symbols that has the numbers of all these graphs for some values of the symbols. The recorded values are those
// of the last graph. `may_be_size` tells whether an integer argument of a node may be a size; others must be equal in all graphs.
// Returns nothing if the structures differ or an integer cannot be explained.
using MayBeSize = std::function<bool(const Node& node, size_t argument)>;
std::optional<Graph> generalise(const std::vector<const Graph*>& graphs, const MayBeSize& may_be_size);

// Returns the values of the symbols for which `symbolic` has exactly the numbers of `graph`; nothing if there are none.
std::optional<SymbolValues> symbols_of(const Graph& symbolic, const Graph& graph);

}  // namespace tenon::ir
