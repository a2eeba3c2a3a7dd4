// Small queries on a node.
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace tenon::ir {

// Returns the tensor or the constant that an argument is; kNoValue or nullptr if it is something else.
inline ValueId operand(const Node& node, size_t index) {
  const auto* id = index < node.args.size() ? std::get_if<ValueId>(&node.args[index]) : nullptr;
  return id ? *id : kNoValue;
}
inline const Attribute* constant(const Node& node, size_t index) {
  return index < node.args.size() ? std::get_if<Attribute>(&node.args[index]) : nullptr;
}
template <class T>
const T* constant(const Node& node, size_t index) {
  const Attribute* attribute = constant(node, index);
  return attribute ? std::get_if<T>(attribute) : nullptr;
}

// Returns the result of a node that returns exactly one tensor, otherwise kNoValue.
inline ValueId only_result(const Node& node) {
  bool one = node.results.size() == 1 && !node.results[0].is_list;
  return one ? node.results[0].ids[0] : kNoValue;
}

// Returns whether a node is a pure function of its operands that returns one new tensor.
inline bool makes_one(const Graph& graph, const Node& node) {
  ValueId result = only_result(node);
  return !node.ordered && node.writes.empty() && result != kNoValue && graph.values[result].alias_of == kNoValue;
}

}  // namespace tenon::ir
