#include "passes/fusion/call_builder.h"

#include "ir/graph/node.h"
#include "ops/table.h"
#include "passes/layout.h"

namespace tenon::passes {

Producers::Producers(const ir::Graph& graph) : graph_(graph), node_(graph.values.size(), kNoNode), uses_(graph.values.size(), 0) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    ir::for_each_operand(graph.nodes[i], [&](ir::ValueId id) { ++uses_[id]; });
    ir::for_each_definition(graph.nodes[i], [&](ir::ValueId id) { node_[id] = i; });
  }
  for (ir::ValueId id : graph.outputs)
    if (id != ir::kNoValue) ++uses_[id];
  for (const auto* writes : {&graph.write_backs, &graph.forward_write_backs})
    for (const ir::WriteBack& write : *writes) ++uses_[write.value];
}

const ir::Node* Producers::only(ir::ValueId id) const {
  if (id == ir::kNoValue || uses_[id] != 1 || node_[id] == kNoNode) return nullptr;
  const ir::Node& node = graph_.nodes[node_[id]];
  bool makes_one = node.writes.empty() && !node.ordered && node.results.size() == 1 && !node.results[0].is_list;
  return makes_one ? &node : nullptr;
}

CallBuilder::CallBuilder(const ir::Graph& graph, const ir::Group& group) : whole_(graph), inputs_(group.inputs) {
  graph_.name = graph.name;
  graph_.symbols = graph.symbols;
  graph_.scalars = graph.scalars;
}

ir::ValueId CallBuilder::add(std::string op, std::vector<ir::Argument> args, ir::SizeList sizes, ir::DType dtype) {
  bool is_view = ops::view_kind(op) != ops::View::none;
  graph_.nodes.push_back({.op = std::move(op), .args = std::move(args)});
  ir::ValueId result = add_result(std::move(sizes), dtype);
  if (is_view) set_view(result);
  return result;
}

// Sets strides, offset and alias of a view.
void CallBuilder::set_view(ir::ValueId id) {
  const ir::Node& node = graph_.nodes.back();
  ir::Value& value = made_[id - first_new()];
  ir::ValueId of_id = ir::operand(node, 0);
  const ir::TensorType& of = type(of_id);
  if (node.op == "aten::transpose.int") {
    value.type.strides = of.strides;
    std::swap(value.type.strides.at(static_cast<size_t>(*ir::integer(node, 1))),
              value.type.strides.at(static_cast<size_t>(*ir::integer(node, 2))));
  } else if (auto strides = view_strides(of, value.type.sizes); node.op == "aten::view" && strides) {
    value.type.strides = *strides;
  } else {
    return;  // ATen will throw, and the group's own ops run instead.
  }
  value.type.offset = of.offset;
  value.alias_of = of_id;
}

ir::ValueId CallBuilder::add_result(ir::SizeList sizes, ir::DType dtype) {
  ir::SizeList strides = ir::contiguous_strides(sizes);
  ir::ValueId result = first_new() + static_cast<ir::ValueId>(made_.size());
  made_.push_back({{dtype, std::move(sizes), std::move(strides)}});
  graph_.nodes.back().results.push_back({false, {result}});
  return result;
}

void CallBuilder::add_nothing() { graph_.nodes.back().results.push_back({false, {ir::kNoValue}}); }

std::shared_ptr<const ir::Graph> CallBuilder::finish(std::vector<ir::ValueId> outputs) {
  ir::Group all{.inputs = std::move(inputs_), .outputs = std::move(outputs)};
  for (size_t i = 0; i < graph_.nodes.size(); ++i) all.nodes.push_back(i);
  auto value = [&](ir::ValueId id) -> const ir::Value& { return is_new(id) ? made_[id - first_new()] : whole_.values[id]; };
  return std::make_shared<const ir::Graph>(ir::subgraph(graph_, all, value));
}

}  // namespace tenon::passes
