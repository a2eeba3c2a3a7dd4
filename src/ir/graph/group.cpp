#include "ir/graph/group.h"

#include <cmath>
#include <cstdio>
#include <unordered_map>

namespace tenon::ir {
namespace {

// Rank of a type in promotion: bool, then integers and floating-point types by width.
int rank(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return 0;
    case DType::u8:
    case DType::i8:
      return 1;
    case DType::i16:
      return 2;
    case DType::i32:
      return 3;
    case DType::i64:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 5;
    case DType::f32:
      return 6;
    case DType::f64:
      return 7;
    default:
      return 8;
  }
}

std::string constant_text(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return std::to_string(static_cast<int64_t>(value));
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

bool is_view(const Graph& graph, const Node& node) {
  bool out = node.writes.empty() && !node.ordered && !is_fused(node) && !node.results.empty();
  for_each_definition(node, [&](ValueId id) { out &= graph.values[id].alias_of != kNoValue; });
  return out;
}

Graph subgraph(const Graph& graph, const Group& group) {
  return subgraph(graph, group, [&](ValueId id) -> const Value& { return graph.values[id]; });
}

// Values get new ids, because copying all values of the graph for each group would take quadratic time.
Graph subgraph(const Graph& graph, const Group& group, const std::function<const Value&(ValueId)>& value) {
  Graph out;
  out.name = graph.name;
  out.symbols = graph.symbols;
  out.scalars = graph.scalars;
  std::unordered_map<ValueId, ValueId> ids;
  auto renamed = [&](ValueId id) {
    if (id == kNoValue) return id;
    auto [it, is_new] = ids.try_emplace(id, static_cast<ValueId>(out.values.size()));
    if (is_new) out.values.push_back(value(id));
    return it->second;
  };
  for (ValueId id : group.inputs) {
    out.inputs.push_back({renamed(id), InputRole::argument, "input " + std::to_string(out.inputs.size())});
    out.values[out.inputs.back().value].alias_of = kNoValue;
  }
  for (size_t i : group.nodes) {
    Node& node = out.nodes.emplace_back(graph.nodes[i]);
    for (Argument& arg : node.args) {
      if (auto* id = std::get_if<ValueId>(&arg)) *id = renamed(*id);
      else if (auto* list = std::get_if<ValueList>(&arg))
        for (ValueId& item : list->ids) item = renamed(item);
    }
    for (Node::Write& write : node.writes) write.before = renamed(write.before);
    for (Node::Write& write : node.writes) write.after = renamed(write.after);
    for (Result& result : node.results)
      for (ValueId& id : result.ids) id = renamed(id);
    for_each_definition(node, [&](ValueId id) {
      ValueId& alias = out.values[id].alias_of;
      auto known = ids.find(alias);
      if (alias != kNoValue) alias = known == ids.end() ? kNoValue : known->second;
    });
  }
  for (ValueId id : group.outputs) out.outputs.push_back(renamed(id));
  return out;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (rank(a) != rank(b)) return rank(a) > rank(b) ? a : b;
  return is_floating(a) ? DType::f32 : DType::i16;  // The pairs f16 and bf16, u8 and i8.
}

std::string plain_text(const Argument& argument) {
  if (const auto* id = std::get_if<ValueId>(&argument)) return *id == kNoValue ? "none" : "";
  const auto* attribute = std::get_if<Attribute>(&argument);
  if (!attribute) return {};
  if (std::holds_alternative<None>(*attribute)) return "none";
  if (const auto* text = std::get_if<std::string>(attribute)) return *text;
  if (const auto* flag = std::get_if<bool>(attribute)) return *flag ? "true" : "false";
  if (const auto* flags = std::get_if<std::vector<bool>>(attribute)) {
    std::string text;
    for (bool flag : *flags) text += flag ? '1' : '0';
    return text;
  }
  if (const auto* value = std::get_if<Size>(attribute)) return value->is_number() ? std::to_string(value->number()) : "";
  if (const auto* value = std::get_if<double>(attribute)) return constant_text(*value);
  return {};
}

}  // namespace tenon::ir
