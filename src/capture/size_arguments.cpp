#include "capture/size_arguments.h"

#include "bridge/convert.h"
#include "ops/table.h"

namespace tenon::capture {
namespace {

// Schemas mark sizes as SymInt. A Scalar may hold any number.
bool has_size_type(const c10::Argument& parameter) {
  std::string type = parameter.real_type()->str();
  return type.find("SymInt") != std::string::npos || type.find("Scalar") != std::string::npos || type.find("number") != std::string::npos;
}

}  // namespace

bool may_be_size(const ir::Node& node, size_t argument) {
  const auto* attribute = std::get_if<ir::Attribute>(&node.args[argument]);
  const ops::Facts* facts = ops::find(node.op);
  bool is_number = attribute && !std::holds_alternative<ir::SizeList>(*attribute);
  if (is_number && facts && facts->specializes) return false;
  if (attribute && std::holds_alternative<ir::ScalarTensor>(*attribute)) return true;
  const auto& parameters = bridge::find_op(node.op).schema().arguments();
  return argument < parameters.size() && has_size_type(parameters[argument]);
}

}  // namespace tenon::capture
