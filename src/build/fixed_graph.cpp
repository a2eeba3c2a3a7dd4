#include "build/fixed_graph.h"

namespace tenon::build {
namespace {

void fix(ir::Attribute& attribute, const ir::SymbolValues& symbols) {
  if (auto* size = std::get_if<ir::Size>(&attribute)) *size = size->value(symbols);
  if (auto* sizes = std::get_if<ir::SizeList>(&attribute)) *sizes = sizes->values(symbols);
  if (auto* tensor = std::get_if<ir::ScalarTensor>(&attribute))
    if (auto* size = std::get_if<ir::Size>(&tensor->number)) *size = size->value(symbols);
}

}  // namespace

ir::Graph fixed_graph(ir::Graph graph, const ir::SymbolValues& symbols) {
  if (symbols.empty()) return graph;
  for (ir::Value& value : graph.values) value.type = value.type.at(symbols);
  for (ir::Node& node : graph.nodes)
    for (ir::Argument& argument : node.args)
      if (auto* attribute = std::get_if<ir::Attribute>(&argument)) fix(*attribute, symbols);
  graph.symbols.clear();
  graph.conditions.clear();
  return graph;
}

}  // namespace tenon::build
