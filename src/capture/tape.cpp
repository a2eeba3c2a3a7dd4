#include "capture/tape.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "bridge/convert.h"
#include "ir/graph/print.h"

namespace tenon::capture {
namespace {

bool same_double(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

struct SameArgument {
  const TapeArgument& other;
  bool operator()(const TensorRef& a) const { return std::get<TensorRef>(other) == a; }
  bool operator()(const TensorListRef& a) const { return std::get<TensorListRef>(other) == a; }
  bool operator()(const ir::ScalarTensor& a) const { return same_scalar_tensor(a, std::get<ir::ScalarTensor>(other)); }
  bool operator()(const c10::IValue& a) const { return same_constant(a, std::get<c10::IValue>(other)); }
};

}  // namespace

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  // Frequent types come first: this runs for every argument of every replayed op.
  if (a.isInt()) return b.isInt() && a.toInt() == b.toInt();
  if (a.isNone()) return b.isNone();
  if (a.isBool()) return b.isBool() && a.toBool() == b.toBool();
  if (a.isIntList()) {
    if (!b.isIntList()) return false;
    auto x = a.toListRef(), y = b.toListRef();
    return x.size() == y.size() &&
           std::equal(x.begin(), x.end(), y.begin(), [](const c10::IValue& m, const c10::IValue& n) { return m.toInt() == n.toInt(); });
  }
  if (a.isDouble()) return b.isDouble() && same_double(a.toDouble(), b.toDouble());
  if (a.isDoubleList()) {
    if (!b.isDoubleList()) return false;
    auto x = a.toDoubleVector(), y = b.toDoubleVector();
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), same_double);
  }
  if (a.isGenerator()) return b.isGenerator() && a.toGenerator() == b.toGenerator();
  if (a.tagKind() != b.tagKind()) return false;
  if (a.isTensor() || a.isObject() || a.isCapsule()) return false;
  return a == b;
}

bool same_scalar_tensor(const ir::ScalarTensor& a, const ir::ScalarTensor& b) {
  if (a.dtype != b.dtype || a.plain != b.plain || a.number.index() != b.number.index()) return false;
  if (const auto* d = std::get_if<double>(&a.number)) return same_double(*d, std::get<double>(b.number));
  return a.number == b.number;
}

std::string describe(const c10::IValue& value) {
  std::ostringstream out;
  if (value.isGenerator()) out << "a generator";
  else if (value.isTensor() && !value.toTensor().defined()) out << "no tensor";
  else if (value.isTensor() && value.toTensor().unsafeGetTensorImpl()->is_wrapped_number())
    out << ir::print(ir::Attribute(bridge::to_scalar_tensor(value.toTensor(), /*plain=*/false)));
  else if (value.isTensor()) out << at::toString(value.toTensor().scalar_type()) << value.toTensor().sizes();
  else if (value.isTensorList() || value.isOptionalTensorList()) out << "a list of tensors";
  else out << value;
  return out.str();
}

std::string describe(const TapeArgument& argument) {
  if (const auto* value = std::get_if<c10::IValue>(&argument)) return describe(*value);
  if (const auto* number = std::get_if<ir::ScalarTensor>(&argument)) return ir::print(ir::Attribute(*number));
  if (std::holds_alternative<TensorListRef>(argument)) return "a list of tensors";
  const auto& ref = std::get<TensorRef>(argument);
  std::ostringstream out;
  if (!ref.defined()) out << "no tensor";
  else out << at::toString(ref.geometry.dtype) << c10::IntArrayRef(ref.geometry.sizes);
  return out.str();
}

std::optional<double> free_scalar(const TapeOp& op, const TapeArgument& argument) {
  if (!op.free_scalars) return std::nullopt;
  if (const auto* number = std::get_if<ir::ScalarTensor>(&argument)) {
    const auto* value = std::get_if<double>(&number->number);
    return value ? std::optional(*value) : std::nullopt;
  }
  const auto* value = std::get_if<c10::IValue>(&argument);
  return value && value->isDouble() ? std::optional(value->toDouble()) : std::nullopt;
}

Geometry geometry_of(const at::Tensor& tensor) {
  Geometry g;
  g.dtype = tensor.scalar_type();
  g.offset = tensor.storage_offset();
  auto sizes = tensor.sizes(), strides = tensor.strides();
  g.sizes.assign(sizes.begin(), sizes.end());
  g.strides.assign(strides.begin(), strides.end());
  return g;
}

std::string op_name(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::string first_difference(const Tape& a, TapeLength a_length, const Tape& b, TapeLength b_length, const std::vector<bool>& may_differ) {
  size_t common = std::min(a_length.ops, b_length.ops);
  for (size_t i = 0; i < common; ++i) {
    const TapeOp &x = a.ops[i], &y = b.ops[i];
    std::string at = "op " + std::to_string(i) + ": ";
    if (!(x.op == y.op)) return at + op_name(x.op) + " became " + op_name(y.op);
    size_t scalar = x.before.scalars;
    for (size_t k = 0; k < x.args.size(); ++k) {
      if (free_scalar(x, x.args[k])) {
        size_t s = scalar++;
        if (s < may_differ.size() && may_differ[s] && free_scalar(y, y.args[k])) continue;
      }
      if (x.args[k].index() != y.args[k].index() || !std::visit(SameArgument{y.args[k]}, x.args[k]))
        return at + op_name(x.op) + ", argument " + std::to_string(k) + ": " + describe(x.args[k]) + " became " + describe(y.args[k]);
    }
    if (x.no_grad != y.no_grad) return at + op_name(x.op) + ": grad mode changed";
  }
  if (a_length.ops != b_length.ops)
    return "op " + std::to_string(common) + ": " + std::to_string(a_length.ops) + " ops became " + std::to_string(b_length.ops);
  for (size_t i = 0; i < std::min(a.comparisons.size(), b.comparisons.size()); ++i)
    if (a.comparisons[i].value != b.comparisons[i].value) return "aten::equal gave another result";
  if (a_length.externals != b_length.externals) return "the number of tensors that it uses changed";
  for (size_t i = 0; i < a_length.externals; ++i) {
    const External &x = a.externals[i], &y = b.externals[i];
    if (x.kind != y.kind || x.index != y.index || !(x.ref == y.ref)) return "tensor '" + x.name + "' changed its kind or geometry";
    if (x.is_constant() != y.is_constant() || (x.is_constant() && !same_scalar_tensor(*x.constant, *y.constant)))
      return "the scalar '" + x.name + "' changed";
    if (x.kind == External::Kind::discovered && !x.is_constant() &&
        x.weak_storage._unsafe_get_target() != y.weak_storage._unsafe_get_target())
      return "tensor '" + x.name + "' is another tensor object";
  }
  return "";
}

std::vector<const c10::TensorImpl*> operand_objects(const std::vector<TapeArgument>& args, const std::vector<c10::IValue>& stack,
                                                    size_t first) {
  std::vector<const c10::TensorImpl*> out;
  for (size_t i = 0; i < args.size(); ++i) {
    if (std::holds_alternative<TensorRef>(args[i])) {
      out.push_back(stack[first + i].toTensor().unsafeGetTensorImpl());
    } else if (std::holds_alternative<TensorListRef>(args[i])) {
      for (const c10::IValue& item : stack[first + i].toListRef())
        out.push_back(item.isTensor() ? item.toTensor().unsafeGetTensorImpl() : nullptr);
    }
  }
  return out;
}

Origin origin_of(const at::Tensor& result, const std::vector<TapeArgument>& args, const std::vector<const c10::TensorImpl*>& operands,
                 int32_t storage) {
  Origin found;
  size_t next = 0;
  auto consider = [&](const TensorRef& ref, size_t argument, size_t item) {
    const c10::TensorImpl* operand = operands[next++];
    if (!ref.defined() || ref.storage != storage || found.same) return;
    bool same = operand == result.unsafeGetTensorImpl();
    if (same || found.argument < 0) found = {static_cast<int32_t>(argument), static_cast<int32_t>(item), same};
  };
  for (size_t i = 0; i < args.size(); ++i) {
    if (const auto* ref = std::get_if<TensorRef>(&args[i])) consider(*ref, i, 0);
    else if (const auto* list = std::get_if<TensorListRef>(&args[i]))
      for (size_t k = 0; k < list->items.size(); ++k) consider(list->items[k], i, k);
  }
  return found;
}

}  // namespace tenon::capture
