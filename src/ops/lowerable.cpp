#include "ops/lowerable.h"

#include <algorithm>
#include <set>

#include "ir/graph/node.h"
#include "ir/loop/loop.h"
#include "ops/strided_operands.h"

namespace tenon::ops {

using ir::DType;
using ir::ValueId;
namespace loop = ir::loop;

bool has_registers(DType dtype) { return ir::is_floating(dtype) || ir::is_integer(dtype) || dtype == DType::boolean; }

bool has_elements(const ir::TensorType& type) { return std::count(type.sizes.begin(), type.sizes.end(), 0) == 0; }

namespace {

// Returns whether an expression is defined in this type. `is_condition`: its result is used as a bool, whatever type it compares in.
bool fits(const Expression& e, DType type, bool is_condition) {
  using loop::OpKind;
  loop::Op op = loop::Op::add;
  bool is_function = e.kind == Expression::Kind::function && loop::op_from_name(e.function, op);
  OpKind kind = is_function ? loop::op_kind(op) : OpKind::cast;
  bool on_bools = is_condition && kind == OpKind::integral;
  if (kind == OpKind::integral && !on_bools && ir::is_floating(type)) return false;
  if ((kind == OpKind::arithmetic || kind == OpKind::real) && type == DType::boolean) return false;
  if (is_function && op == loop::Op::div && !ir::is_floating(type)) return false;           // Eager divides integers as floats.
  if (kind == OpKind::real && op != loop::Op::fma && !ir::is_floating(type)) return false;  // An integer fma is lowered to two ops.
  if (e.kind == Expression::Kind::constant && ir::is_integer(type) && !loop::fits(static_cast<int64_t>(e.constant), type)) return false;
  bool is_logic = e.function == "any" || e.function == "all";
  if (e.kind == Expression::Kind::reduction && is_logic != (type == DType::boolean)) return false;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    bool selects = kind == OpKind::select && i == 0;
    if (!fits(e.operands[i], type, selects || on_bools || (is_condition && kind != OpKind::compare))) return false;
  }
  return true;
}

bool only_selects(const Expression& e) {
  return e.kind == Expression::Kind::argument || e.kind == Expression::Kind::indexed ||
         (e.kind == Expression::Kind::function && e.function == "select");
}

// Returns whether the low bits of the result are the same in a wider integer type.
bool wraps(const Expression& e) {
  static const std::set<std::string> same = {"add", "sub", "mul", "fma", "neg", "bit_and", "bit_or", "bit_xor", "bit_not"};
  if (e.kind == Expression::Kind::function && !same.count(e.function)) return false;
  return e.kind != Expression::Kind::reduction && std::all_of(e.operands.begin(), e.operands.end(), wraps);
}

const ir::ScalarTensor* scalar_tensor(const ir::Argument& arg) {
  const auto* attribute = std::get_if<ir::Attribute>(&arg);
  return attribute ? std::get_if<ir::ScalarTensor>(attribute) : nullptr;
}

bool is_real_scalar(const ir::Argument& arg) {
  const auto* attribute = std::get_if<ir::Attribute>(&arg);
  if (!attribute) return false;
  if (const auto* tensor = std::get_if<ir::ScalarTensor>(attribute)) return !std::holds_alternative<std::complex<double>>(tensor->number);
  return std::holds_alternative<double>(*attribute) || std::holds_alternative<ir::Size>(*attribute) ||
         std::holds_alternative<bool>(*attribute) || std::holds_alternative<ir::Scalar>(*attribute);
}

bool is_floating_scalar(const ir::Argument& arg) {
  const auto& attribute = std::get<ir::Attribute>(arg);
  if (const auto* tensor = std::get_if<ir::ScalarTensor>(&attribute)) return ir::is_floating(tensor->dtype);
  return std::holds_alternative<double>(attribute) || std::holds_alternative<ir::Scalar>(attribute);
}

void arguments_of(const Expression& e, const ir::Node& node, std::set<int>& out) {
  bool is_argument = e.kind == Expression::Kind::argument || e.kind == Expression::Kind::indexed;
  bool is_given = !default_of(e) || (static_cast<size_t>(e.argument) < node.args.size() && !is_absent(node.args[e.argument]));
  if (is_argument && is_given) out.insert(e.argument);
  for (const Expression& operand : e.operands) arguments_of(operand, node, out);
}

std::set<int> arguments_of(const OpEntry& entry, const ir::Node& node) {
  std::set<int> out;
  for (const Expression& result : entry.results) arguments_of(result, node, out);
  return out;
}

int depth(const Expression& e) {
  int deepest = 0;
  for (const Expression& operand : e.operands) deepest = std::max(deepest, depth(operand));
  return deepest + (e.kind == Expression::Kind::reduction);
}

// Elements that are reduced into one. ATen divides longer reductions among threads, while a kernel computes each result on one.
// Estimate, not measured.
constexpr int64_t kMaxElementsPerReduction = int64_t{1} << 20;

// Promotes as ATen does: tensors with dimensions count first; 0-d tensors and then scalars count only
// if they are of a higher category (bool, integer, floating).
DType promoted(const ir::Graph& graph, const ir::Node& node, const std::set<int>& arguments) {
  auto kind = [](DType d) { return ir::is_floating(d) ? 2 : d == DType::boolean ? 0 : 1; };
  struct PromotionClass {
    bool any = false;
    DType dtype = DType::boolean;
    void add(DType d) {
      dtype = any ? ir::promote(dtype, d) : d;
      any = true;
    }
  } sized, zero, scalars;
  for (int i : arguments) {
    if (const auto* id = std::get_if<ValueId>(&node.args[i])) {
      const ir::TensorType& type = graph.values[*id].type;
      (type.sizes.empty() ? zero : sized).add(type.dtype);
    } else if (const ir::ScalarTensor* tensor = scalar_tensor(node.args[i]); tensor && tensor->plain) {
      zero.add(tensor->dtype);
    } else if (is_floating_scalar(node.args[i])) {
      scalars.add(DType::f32);
    } else {
      bool is_bool = std::holds_alternative<bool>(std::get<ir::Attribute>(node.args[i]));
      scalars.add(is_bool ? DType::boolean : DType::i64);
    }
  }
  DType out = DType::boolean;
  bool any = false;
  for (const PromotionClass* category : {&sized, &zero, &scalars}) {
    if (!category->any) continue;
    if (!any) out = category->dtype;
    else if (kind(category->dtype) > kind(out)) out = category->dtype;
    any = true;
  }
  return out;
}

// Returns whether only a scalar makes the result floating: its type is then the program's default dtype, which the graph does not have.
bool is_floating_by_scalar(const ir::Graph& graph, const ir::Node& node, const std::set<int>& arguments, DType type) {
  if (!ir::is_floating(type)) return false;
  return std::none_of(arguments.begin(), arguments.end(), [&](int i) {
    const auto* id = std::get_if<ValueId>(&node.args[i]);
    const ir::ScalarTensor* tensor = scalar_tensor(node.args[i]);
    return (id && ir::is_floating(graph.values[*id].type.dtype)) || (tensor && tensor->plain && ir::is_floating(tensor->dtype));
  });
}

// Float-to-integer conversion is undefined for values out of range, and eager's result differs from
// kernel to kernel.
bool converts(DType from, DType to) { return !(ir::is_floating(from) && ir::is_integer(to)); }

// Returns whether a kernel can use this argument in the type: scalars of a call and symbolic integers are floating-point arguments, and
// ATen would wrap a constant that is too large. Positions and indices are computed in integers, whatever the type.
bool is_usable_in(const ir::Argument& arg, DType type, const OpEntry& entry) {
  if (ir::scalar_in(arg) != ir::kNoScalar) return ir::is_floating(type);
  const auto& attribute = std::get<ir::Attribute>(arg);
  const auto* tensor = std::get_if<ir::ScalarTensor>(&attribute);
  const ir::Size* integer = tensor ? std::get_if<ir::Size>(&tensor->number) : std::get_if<ir::Size>(&attribute);
  if (integer && !integer->is_number()) return ir::is_floating(type) && !entry.has_positions && entry.strided_arguments.empty();
  return !integer || !ir::is_integer(type) || loop::fits(integer->number(), type);
}

}  // namespace

DType register_type(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype; }

bool is_absent(const ir::Argument& argument) {
  if (const auto* id = std::get_if<ValueId>(&argument)) return *id == ir::kNoValue;
  const auto* attribute = std::get_if<ir::Attribute>(&argument);
  return attribute && std::holds_alternative<ir::None>(*attribute);
}

std::vector<ValueId> results_of(const ir::Node& node) {
  std::vector<ValueId> out;
  for (const ir::Result& result : node.results) out.push_back(result.is_list ? ir::kNoValue : result.ids[0]);
  for (const ir::Node::Write& write : node.writes)
    if (std::find(out.begin(), out.end(), write.after) == out.end()) out.push_back(write.after);
  return out;
}

int depth(const OpEntry& entry) {
  int deepest = 0;
  for (const Expression& result : entry.results) deepest = std::max(deepest, depth(result));
  return deepest;
}

const ir::SizeList& sizes_of(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry) {
  bool reduces = entry.reduced.kind != Reduced::Kind::none;
  return graph.values[reduces ? std::get<ValueId>(node.args[entry.reduced.of]) : results_of(node)[0]].type.sizes;
}

std::vector<bool> reduced_dims(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry) {
  if (entry.reduced.kind == Reduced::Kind::none) return {};
  size_t rank = sizes_of(graph, node, entry).size();
  if (entry.reduced.kind == Reduced::Kind::all_but) {
    std::vector<bool> out(rank, true);
    if (static_cast<size_t>(entry.reduced.argument) < rank) out[static_cast<size_t>(entry.reduced.argument)] = false;
    return out;
  }
  ir::SizeList listed;  // Dimensions; for `last` and `before_last` sizes, of which only the count matters.
  if (entry.reduced.kind != Reduced::Kind::all) {
    if (const auto* attribute = std::get_if<ir::Attribute>(&node.args[entry.reduced.argument])) {
      if (const auto* list = std::get_if<ir::SizeList>(attribute)) listed = *list;
      if (const auto* one = std::get_if<ir::Size>(attribute)) listed = {*one};
    }
  }
  if (entry.reduced.kind == Reduced::Kind::last || entry.reduced.kind == Reduced::Kind::before_last) {
    std::vector<bool> out(rank, entry.reduced.kind == Reduced::Kind::before_last);
    std::fill(out.end() - static_cast<ptrdiff_t>(std::min(rank, listed.size())), out.end(), entry.reduced.kind == Reduced::Kind::last);
    return out;
  }
  std::vector<bool> out(rank, listed.empty());
  for (int64_t dim : listed.numbers()) {
    size_t at = static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
    if (at < rank) out[at] = true;
  }
  return out;
}

DType result_type(const ir::Graph& graph, const ir::Node& node) {
  std::vector<ValueId> results = results_of(node);
  return graph.values[*std::find_if(results.begin(), results.end(), [](ValueId id) { return id != ir::kNoValue; })].type.dtype;
}

DType compute_type(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry) {
  if (entry.typing == Typing::logic) return DType::boolean;
  if (entry.typing == Typing::value) return register_type(result_type(graph, node));
  return register_type(operand_type(graph, node, entry));
}

DType operand_type(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry) {
  return promoted(graph, node, arguments_of(entry, node));
}

namespace {

// Returns whether a tensor is contiguous, in the default memory format or channels_last.
bool is_contiguous(const ir::TensorType& type) {
  ir::SizeList sizes = type.sizes, strides = type.strides;
  if (same(strides, ir::contiguous_strides(sizes))) return true;
  if (sizes.size() < 4) return false;
  std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
  std::rotate(strides.begin() + 1, strides.begin() + 2, strides.end());
  return same(strides, ir::contiguous_strides(sizes));
}

bool broadcasts(const ir::SizeList& from, const ir::SizeList& to) {
  if (from.size() > to.size()) return false;
  size_t missing = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d)
    if (!same(from[d], to[d + missing]) && from[d] != 1 && from[d] != to[d + missing]) return false;
  return true;
}

// Returns whether the results have the sizes of the iteration space, with or without the reduced dimensions.
bool fits_results(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry) {
  std::vector<ValueId> results = results_of(node);
  if (results.empty() || results.size() > entry.results.size()) return false;
  if (std::all_of(results.begin(), results.end(), [](ValueId id) { return id == ir::kNoValue; })) return false;
  bool is_in_place = node.writes.size() == 1 && results.size() == 1;
  bool writes_besides = results.size() == node.results.size() + node.writes.size();
  if (!node.writes.empty() && !is_in_place && !writes_besides) return false;
  bool reduces = entry.reduced.kind != Reduced::Kind::none;
  auto of = static_cast<size_t>(entry.reduced.of);
  if (reduces && (node.args.size() <= of || !std::holds_alternative<ValueId>(node.args[of]) || is_absent(node.args[of]))) return false;
  if (!reduces && results[0] == ir::kNoValue) return false;
  if (entry.reduced.kind == Reduced::Kind::listed) {
    const auto* dims = ir::constant<ir::SizeList>(node, static_cast<size_t>(entry.reduced.argument));
    const auto* dim = ir::constant<ir::Size>(node, static_cast<size_t>(entry.reduced.argument));
    if ((dims && !dims->are_numbers()) || (dim && !dim->is_number())) return false;
  }
  const ir::SizeList& sizes = sizes_of(graph, node, entry);
  if (std::count(sizes.begin(), sizes.end(), 0) > 0) return false;
  std::vector<bool> reduced = reduced_dims(graph, node, entry);
  ir::SizeList kept, dropped;
  ir::Size length = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    bool gone = reduces && reduced[d];
    kept.push_back(gone ? 1 : sizes[d]);
    if (gone) length *= sizes[d];
    else dropped.push_back(sizes[d]);
  }
  if (reduces && length == 1) return false;
  ValueId first = *std::find_if(results.begin(), results.end(), [](ValueId id) { return id != ir::kNoValue; });
  for (ValueId id : results) {
    if (id == ir::kNoValue) continue;
    const ir::Value& value = graph.values[id];
    if (value.alias_of != ir::kNoValue || !has_registers(value.type.dtype)) return false;
    if (node.ordered && !ir::is_floating(value.type.dtype)) return false;  // Ops with an entry that may throw do so only on integers.
    if (!same(value.type.sizes, sizes) && !same(value.type.sizes, kept) && !same(value.type.sizes, dropped)) return false;
    if (register_type(value.type.dtype) != register_type(graph.values[first].type.dtype)) return false;
    if (entry.typing != Typing::value && value.type.dtype != DType::boolean) return false;
  }
  return !reduces || length <= kMaxElementsPerReduction;
}

}  // namespace

const OpEntry* lowerable(const ir::Graph& graph, const ir::Node& node) {
  const OpEntry* entry = find_entry(node.op, [&](int i) {
    const auto* id = std::get_if<ValueId>(&node.args[i]);
    return id && *id != ir::kNoValue && is_contiguous(graph.values[*id].type) ? "in order" : ir::plain_text(node.args[i]);
  });
  if (!entry || !fits_results(graph, node, *entry)) return nullptr;
  std::set<int> arguments = arguments_of(*entry, node);
  auto strided = strided_operands_of(graph, node, *entry);
  if (!strided) return nullptr;
  for (int i : arguments) {
    if (static_cast<size_t>(i) >= node.args.size()) return nullptr;
    if (const auto* id = std::get_if<ValueId>(&node.args[i])) {
      if (*id == ir::kNoValue || !has_registers(graph.values[*id].type.dtype)) return nullptr;
      const ir::SizeList& sizes = sizes_of(graph, node, *entry);
      bool is_strided = std::any_of(strided->begin(), strided->end(), [&](const ir::StridedOperand& p) { return p.id == *id; });
      if (!is_strided && !broadcasts(graph.values[*id].type.sizes, sizes)) return nullptr;
    } else if (!is_real_scalar(node.args[i])) {
      return nullptr;
    }
  }
  // A loss divides by the element count of its first operand, before broadcasting.
  bool is_loss = entry->reduced.kind == Reduced::Kind::none && entry->counts;
  if (is_loss)
    if (const auto* id = std::get_if<ValueId>(&node.args[1]); !id || !same(graph.values[*id].type.sizes, sizes_of(graph, node, *entry)))
      return nullptr;
  DType type = compute_type(graph, node, *entry);
  if (entry->typing == Typing::operands && is_floating_by_scalar(graph, node, arguments, type)) return nullptr;
  for (const Expression& result : entry->results)
    if (!fits(result, type, entry->typing != Typing::value)) return nullptr;
  for (int i : arguments) {
    const auto* id = std::get_if<ValueId>(&node.args[i]);
    DType from = id ? graph.values[*id].type.dtype : is_floating_scalar(node.args[i]) ? DType::f64 : DType::i64;
    if (!converts(from, type) || (!id && !is_usable_in(node.args[i], type, *entry))) return nullptr;
    // In-place arithmetic on a type narrower than its operands' is computed in the wider type.
    bool wider = id && entry->typing == Typing::value && register_type(ir::promote(from, type)) != type;
    bool is_exact = ir::is_integer(from) && ir::is_integer(type) && wraps(entry->results[0]);
    if (wider && !is_exact && !only_selects(entry->results[0])) return nullptr;
  }
  return entry;
}

}  // namespace tenon::ops
