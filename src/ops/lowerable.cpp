#include "ops/lowerable.h"

#include <algorithm>
#include <set>

namespace tenon::ops {
namespace {

using ir::DType;
using ir::ValueId;

bool has_registers(DType dtype) { return ir::is_floating(dtype) || ir::is_integer(dtype) || dtype == DType::boolean; }

// Of the functions in ir/loop/ops.def: those that a bool, or an integer, has no meaning for.
const std::set<std::string> kAnyType = {"select", "eq", "ne", "lt", "le", "gt", "ge", "bit_and", "bit_or", "bit_xor", "bit_not"};
const std::set<std::string> kIntegers = {"add", "sub", "mul", "neg", "abs", "max", "min"};
const std::set<std::string> kBits = {"bit_and", "bit_or", "bit_xor", "bit_not"};

bool fits(const Expression& e, DType type) {
  if (e.kind == Expression::Kind::function) {
    if (kBits.count(e.function) && ir::is_floating(type)) return false;
    if (!kAnyType.count(e.function) && type == DType::boolean) return false;
    if (!kAnyType.count(e.function) && !kIntegers.count(e.function) && !ir::is_floating(type)) return false;
  }
  return std::all_of(e.operands.begin(), e.operands.end(), [&](const Expression& operand) { return fits(operand, type); });
}

bool only_chooses(const Expression& e) {
  return e.kind == Expression::Kind::argument || (e.kind == Expression::Kind::function && e.function == "select");
}

const ir::NumberTensor* number_tensor(const ir::Argument& arg) {
  const auto* attribute = std::get_if<ir::Attribute>(&arg);
  return attribute ? std::get_if<ir::NumberTensor>(attribute) : nullptr;
}

bool is_real_number(const ir::Argument& arg) {
  const auto* attribute = std::get_if<ir::Attribute>(&arg);
  if (!attribute) return false;
  if (const auto* number = std::get_if<ir::NumberTensor>(attribute)) return !std::holds_alternative<std::complex<double>>(number->number);
  return std::holds_alternative<double>(*attribute) || std::holds_alternative<int64_t>(*attribute) ||
         std::holds_alternative<bool>(*attribute) || std::holds_alternative<ir::Scalar>(*attribute);
}

bool is_floating_number(const ir::Argument& arg) {
  const auto& attribute = std::get<ir::Attribute>(arg);
  if (const auto* number = std::get_if<ir::NumberTensor>(&attribute)) return ir::is_floating(number->dtype);
  return std::holds_alternative<double>(attribute) || std::holds_alternative<ir::Scalar>(attribute);
}

void arguments_of(const Expression& e, std::set<int>& out) {
  if (e.kind == Expression::Kind::argument) out.insert(e.argument);
  for (const Expression& operand : e.operands) arguments_of(operand, out);
}

// As ATen promotes: tensors with sizes count first; 0-d tensors, then numbers, only if they are of
// a higher kind (bool, integer, floating).
DType promoted(const ir::Graph& graph, const ir::Node& node, const std::set<int>& arguments) {
  auto kind = [](DType d) { return ir::is_floating(d) ? 2 : d == DType::boolean ? 0 : 1; };
  struct Pool {
    bool any = false;
    DType dtype = DType::boolean;
    void add(DType d) {
      dtype = any ? ir::promote(dtype, d) : d;
      any = true;
    }
  } sized, zero, numbers;
  for (int i : arguments) {
    if (const auto* id = std::get_if<ValueId>(&node.args[i])) {
      const ir::TensorType& type = graph.values[*id].type;
      (type.sizes.empty() ? zero : sized).add(type.dtype);
    } else if (const ir::NumberTensor* number = number_tensor(node.args[i]); number && number->plain) {
      zero.add(number->dtype);
    } else if (is_floating_number(node.args[i])) {
      numbers.add(DType::f32);
    } else {
      bool is_bool = std::holds_alternative<bool>(std::get<ir::Attribute>(node.args[i]));
      numbers.add(is_bool ? DType::boolean : DType::i64);
    }
  }
  DType out = DType::boolean;
  bool any = false;
  for (const Pool* pool : {&sized, &zero, &numbers}) {
    if (!pool->any) continue;
    if (!any) out = pool->dtype;
    else if (kind(pool->dtype) > kind(out)) out = pool->dtype;
    any = true;
  }
  return out;
}

// Converting a float to an integer has no meaning for what does not fit, and eager's answer
// differs from place to place.
bool converts(DType from, DType to) { return !(ir::is_floating(from) && ir::is_integer(to)); }

}  // namespace

DType register_type(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype; }

ValueId result_of(const ir::Node& node) {
  if (node.results.size() != 1 || node.results[0].is_list) return ir::kNoValue;
  return node.results[0].ids[0];
}

DType compute_type(const ir::Graph& graph, const ir::Node& node, const Pointwise& row) {
  if (row.typing == Typing::logic) return DType::boolean;
  if (row.typing == Typing::value) return register_type(graph.values[result_of(node)].type.dtype);
  std::set<int> arguments;
  arguments_of(row.expression, arguments);
  return register_type(promoted(graph, node, arguments));
}

const Pointwise* lowerable(const ir::Graph& graph, const ir::Node& node) {
  ValueId result = result_of(node);
  if (result == ir::kNoValue || node.ordered || node.writes.size() > 1) return nullptr;
  if (!node.writes.empty() && node.writes[0].after != result) return nullptr;
  const ir::Value& value = graph.values[result];
  if (value.alias_of != ir::kNoValue || !has_registers(value.type.dtype)) return nullptr;
  for (int64_t size : value.type.sizes)
    if (size == 0) return nullptr;
  const Pointwise* row = find_pointwise(node.op, [&](int i) { return ir::plain_text(node.args[i]); });
  if (!row) return nullptr;
  if (row->typing != Typing::value && value.type.dtype != DType::boolean) return nullptr;
  std::set<int> arguments;
  arguments_of(row->expression, arguments);
  for (int i : arguments) {
    if (static_cast<size_t>(i) >= node.args.size()) return nullptr;
    if (const auto* id = std::get_if<ValueId>(&node.args[i])) {
      if (*id == ir::kNoValue || !has_registers(graph.values[*id].type.dtype)) return nullptr;
    } else if (!is_real_number(node.args[i])) {
      return nullptr;
    }
  }
  DType type = compute_type(graph, node, *row);
  if (!fits(row->expression, type)) return nullptr;
  for (int i : arguments) {
    const auto* id = std::get_if<ValueId>(&node.args[i]);
    DType from = id ? graph.values[*id].type.dtype : is_floating_number(node.args[i]) ? DType::f64 : DType::i64;
    if (!converts(from, type)) return nullptr;
    // In-place arithmetic on a narrower type than its operands' is done in the wider one.
    bool wider = id && row->typing == Typing::value && ir::promote(from, value.type.dtype) != value.type.dtype;
    if (wider && !only_chooses(row->expression)) return nullptr;
  }
  return row;
}

}  // namespace tenon::ops
