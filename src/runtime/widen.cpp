#include "runtime/widen.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "bridge/convert.h"

namespace tenon::runtime {
namespace {

ir::DType wider(ir::DType dtype) {
  return dtype == ir::DType::f32 || dtype == ir::DType::bf16 || dtype == ir::DType::f16 ? ir::DType::f64 : dtype;
}

// A factory that is not told a type takes libtorch's default.
bool makes_default_type(const ir::Graph& graph, const ir::Node& node) {
  bool reads = false;
  ir::for_each_operand(node, [&](ir::ValueId) { reads = true; });
  if (reads || node.results.size() != 1 || node.results[0].is_list) return false;
  return graph.values[node.results[0].ids[0]].type.dtype == ir::DType::f64;
}

void widen_attribute(ir::Attribute& attribute, bool is_type, bool by_default) {
  if (is_type && by_default && std::holds_alternative<ir::None>(attribute)) attribute = static_cast<int64_t>(at::kDouble);
  if (auto* number = std::get_if<ir::NumberTensor>(&attribute)) {
    if (number->plain) number->dtype = wider(number->dtype);
  } else if (auto* type = std::get_if<int64_t>(&attribute); type && is_type) {
    if (c10::isFloatingType(static_cast<at::ScalarType>(*type))) *type = static_cast<int64_t>(at::kDouble);
  }
}

}  // namespace

ir::Graph widen(ir::Graph graph) {
  for (ir::Value& value : graph.values) value.type.dtype = wider(value.type.dtype);
  for (ir::Node& node : graph.nodes) {
    const auto& parameters = bridge::find_op(node.op).schema().arguments();
    for (size_t i = 0; i < node.args.size() && i < parameters.size(); ++i)
      if (auto* attribute = std::get_if<ir::Attribute>(&node.args[i])) {
        std::string type = parameters[i].real_type()->str();
        widen_attribute(*attribute, type.find("ScalarType") != std::string::npos, makes_default_type(graph, node));
      }
  }
  return graph;
}

std::vector<at::Tensor> widen(const ir::Graph& wide, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    out.push_back(bridge::empty_of(wide.values[wide.inputs[i].value].type));
    bridge::copy_elements(inputs[i], out.back());
  }
  return out;
}

}  // namespace tenon::runtime
