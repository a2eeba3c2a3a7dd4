// Small questions to a node.
#pragma once

#include <string>

#include "ir/graph/graph.h"

namespace tenon::passes {

// The tensor or the constant that an argument is; kNoValue or nullptr if it is something else.
inline ir::ValueId operand(const ir::Node& node, size_t index) {
  const auto* id = index < node.args.size() ? std::get_if<ir::ValueId>(&node.args[index]) : nullptr;
  return id ? *id : ir::kNoValue;
}
inline const ir::Attribute* constant(const ir::Node& node, size_t index) {
  return index < node.args.size() ? std::get_if<ir::Attribute>(&node.args[index]) : nullptr;
}
template <class T>
const T* constant(const ir::Node& node, size_t index) {
  const ir::Attribute* attribute = constant(node, index);
  return attribute ? std::get_if<T>(attribute) : nullptr;
}

// The result of a node that gives one tensor and nothing else.
inline ir::ValueId only_result(const ir::Node& node) {
  bool one = node.results.size() == 1 && !node.results[0].is_list;
  return one ? node.results[0].ids[0] : ir::kNoValue;
}

// A function of its operands that makes a tensor of its own.
inline bool makes_one(const ir::Graph& graph, const ir::Node& node) {
  ir::ValueId result = only_result(node);
  return !node.ordered && node.writes.empty() && result != ir::kNoValue && graph.values[result].alias_of == ir::kNoValue;
}

}  // namespace tenon::passes
