// Small queries on a node.
#pragma once

#include <optional>
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

// Returns an argument that is an integer or a list of integers; nothing if it is symbolic or something else.
inline std::optional<int64_t> integer(const Node& node, size_t index) {
  const Size* size = constant<Size>(node, index);
  return size && size->is_number() ? std::optional(size->number()) : std::nullopt;
}
inline std::optional<std::vector<int64_t>> integers(const Node& node, size_t index) {
  const SizeList* sizes = constant<SizeList>(node, index);
  return sizes && sizes->are_numbers() ? std::optional(sizes->numbers()) : std::nullopt;
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
