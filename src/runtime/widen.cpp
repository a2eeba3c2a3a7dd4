#include "runtime/widen.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include "bridge/convert.h"

namespace tenon::runtime {
namespace {

ir::DType wider(ir::DType dtype) {
  return dtype == ir::DType::f32 || dtype == ir::DType::bf16 || dtype == ir::DType::f16 ? ir::DType::f64 : dtype;
}

void widen_attribute(ir::Attribute& attribute, bool is_type) {
  if (auto* scalar = std::get_if<ir::ScalarTensor>(&attribute)) {
    if (scalar->plain) scalar->dtype = wider(scalar->dtype);
  } else if (auto* type = std::get_if<ir::Size>(&attribute); type && is_type) {
    if (c10::isFloatingType(static_cast<at::ScalarType>(type->number()))) *type = static_cast<int64_t>(at::kDouble);
  }
}

// Whether the node creates a floating-point tensor without operands; its type is an argument or the default type.
bool is_float_factory(const ir::Graph& wide, const ir::Node& node) {
  bool out = node.results.size() == 1 && !node.results[0].is_list && wide.values[node.results[0].ids[0]].type.dtype == ir::DType::f64;
  ir::for_each_operand(node, [&](ir::ValueId) { out = false; });
  return out;
}

// ATen converts operands that are all integers or bools to its default type. Converts them to f64 first, so that it computes in f64.
void widen_integers(ir::Graph& graph, const ir::Node& node, std::vector<ir::Node>& before, ir::Node& out) {
  bool makes_float = false, reads_float = node.op == "aten::where.self";
  ir::for_each_definition(node, [&](ir::ValueId id) { makes_float |= graph.values[id].type.dtype == ir::DType::f64; });
  ir::for_each_operand(node, [&](ir::ValueId id) { reads_float |= graph.values[id].type.dtype == ir::DType::f64; });
  if (!makes_float || reads_float || node.op == "aten::_to_copy") return;
  ir::Attribute none = ir::None{};
  for (ir::Argument& arg : out.args)
    if (auto* id = std::get_if<ir::ValueId>(&arg); id && *id != ir::kNoValue) {
      ir::TensorType type = graph.values[*id].type;
      type.dtype = ir::DType::f64;
      ir::ValueId real = graph.add_value(type);
      ir::Attribute to = static_cast<int64_t>(at::kDouble);
      before.push_back(
          {.op = "aten::_to_copy", .args = {*id, to, none, none, none, ir::Attribute(false), none}, .results = {{false, {real}}}});
      *id = real;
    }
}

}  // namespace

ir::Graph widen(ir::Graph graph) {
  for (ir::Value& value : graph.values) value.type.dtype = wider(value.type.dtype);
  std::vector<ir::Node> nodes;
  for (ir::Node& node : graph.nodes) {
    const auto& parameters = bridge::find_op(node.op).schema().arguments();
    for (size_t i = 0; i < node.args.size() && i < parameters.size(); ++i)
      if (auto* attribute = std::get_if<ir::Attribute>(&node.args[i])) {
        bool is_type = parameters[i].real_type()->str().find("ScalarType") != std::string::npos;
        widen_attribute(*attribute, is_type);
        if (is_type && is_float_factory(graph, node)) *attribute = static_cast<int64_t>(at::kDouble);
      }
    ir::Node wide = node;
    widen_integers(graph, node, nodes, wide);
    nodes.push_back(std::move(wide));
  }
  graph.nodes = std::move(nodes);
  return graph;
}

std::vector<at::Tensor> widen(const ir::Graph& wide, const ir::SymbolValues& symbols, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    out.push_back(bridge::empty_of(wide.values[wide.inputs[i].value].type.at(symbols)));
    bridge::copy_elements(inputs[i], out.back());
  }
  return out;
}

namespace {

double noise_unit(ir::DType dtype) {
  return dtype == ir::DType::bf16 ? 0x1p-8 : dtype == ir::DType::f16 ? 0x1p-11 : dtype == ir::DType::f32 ? 0x1p-23 : 0x1p-51;
}

}  // namespace

ir::Graph add_noise(ir::Graph wide, const ir::Graph& narrow, std::vector<double>& units) {
  std::vector<ir::Node> nodes = std::move(wide.nodes);
  wide.nodes.clear();
  // Replaces the definition of `id` by a new value, and makes `id` the product of that value and a noise input.
  auto disturb = [&](ir::ValueId id) {
    ir::TensorType type = wide.values[id].type;
    ir::ValueId clean = wide.add_value(type), noise = wide.add_value(type);
    wide.inputs.push_back({noise, ir::InputRole::argument, "noise"});
    units.push_back(noise_unit(static_cast<size_t>(id) < narrow.values.size() ? narrow.values[id].type.dtype : ir::DType::f64));
    return std::pair{clean, ir::Node{.op = "aten::mul.Tensor", .args = {clean, noise}, .results = {{false, {id}}}}};
  };
  for (size_t i = 0, count = wide.inputs.size(); i < count; ++i) {
    if (wide.values[wide.inputs[i].value].type.dtype != ir::DType::f64) continue;
    auto [clean, product] = disturb(wide.inputs[i].value);
    wide.inputs[i].value = clean;
    wide.nodes.push_back(std::move(product));
  }
  for (ir::Node& node : nodes) {
    std::vector<ir::Node> products;
    for (ir::Result& result : node.results)
      for (ir::ValueId& id : result.ids) {
        if (id == ir::kNoValue || wide.values[id].type.dtype != ir::DType::f64) continue;
        auto [clean, product] = disturb(id);
        for (ir::Node::Write& write : node.writes)
          if (write.after == id) write.after = clean;
        id = clean;
        products.push_back(std::move(product));
      }
    wide.nodes.push_back(std::move(node));
    for (ir::Node& product : products) wide.nodes.push_back(std::move(product));
  }
  return wide;
}

std::vector<at::Tensor> with_noise(const ir::Graph& noisy, const ir::SymbolValues& symbols, const std::vector<double>& units,
                                   std::vector<at::Tensor> inputs, size_t run, at::Generator& generator) {
  for (size_t i = 0; i < units.size(); ++i) {
    at::Tensor noise = at::empty(noisy.values[noisy.inputs[inputs.size()].value].type.sizes.values(symbols), at::kDouble);
    bool is_left_out = run % 2 == 1 && (run / 2 >> i % 4) % 2 == 1;
    inputs.push_back(is_left_out ? noise.fill_(1) : noise.normal_(1, units[i], generator));
  }
  return inputs;
}

}  // namespace tenon::runtime
