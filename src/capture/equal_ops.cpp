#include "capture/equal_ops.h"

#include <c10/util/hash.h>

namespace tenon::capture {
namespace {

// Ops with more operands have no equal ones, since operands are compared in pairs. Not measured.
constexpr size_t kMaxOperands = 8;

size_t hash_of(const TapeOp& op) {
  size_t hash = std::hash<c10::OperatorHandle>()(op.op);
  auto mix = [&](int64_t number) { hash = c10::hash_combine(hash, static_cast<size_t>(number)); };
  for_each_operand(op.args, [&](const TensorRef& ref) {
    mix(ref.geometry.offset);
    for (int64_t size : ref.geometry.sizes) mix(size);
  });
  for (const TapeArgument& argument : op.args)
    if (const auto* value = std::get_if<c10::IValue>(&argument)) {
      if (value->isInt()) mix(value->toInt());
      if (value->isIntList())
        for (int64_t number : value->toIntVector()) mix(number);
    }
  return hash;
}

bool same_constant_argument(const TapeArgument& a, const TapeArgument& b) {
  if (a.index() != b.index()) return false;
  if (const auto* value = std::get_if<c10::IValue>(&a)) return same_constant(*value, std::get<c10::IValue>(b));
  if (const auto* number = std::get_if<ir::ScalarTensor>(&a)) return same_scalar_tensor(*number, std::get<ir::ScalarTensor>(b));
  if (const auto* list = std::get_if<TensorListRef>(&a)) return list->items.size() == std::get<TensorListRef>(b).items.size();
  return true;
}

using OperandRefs = c10::SmallVector<const TensorRef*, kMaxOperands>;

OperandRefs operands_of(const TapeOp& op) {
  OperandRefs out;
  for_each_operand(op.args, [&](const TensorRef& ref) { out.push_back(&ref); });
  return out;
}

// Whether the operands agree in their geometry and in which of them share a storage.
bool same_operands(const OperandRefs& a, const OperandRefs& b) {
  if (a.size() != b.size() || a.size() > kMaxOperands) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i]->defined() != b[i]->defined()) return false;
    if (!a[i]->defined()) continue;
    if (!(a[i]->geometry == b[i]->geometry)) return false;
    for (size_t k = 0; k < i; ++k)
      if ((a[i]->storage == a[k]->storage) != (b[i]->storage == b[k]->storage)) return false;
  }
  return true;
}

bool same_results(const TapeOp& a, const TapeOp& b) {
  if (a.results.size() != b.results.size()) return false;
  for (size_t r = 0; r < a.results.size(); ++r) {
    const auto &x = a.results[r].items, &y = b.results[r].items;
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (x[i].defined() != y[i].defined() || x[i].geometry.dtype != y[i].geometry.dtype) return false;
  }
  return true;
}

}  // namespace

const TapeOp* EqualOps::find(const std::vector<TapeOp>& ops, const TapeOp& op) const {
  auto it = newest_.find(hash_of(op));
  if (it == newest_.end() || it->second >= ops.size()) return nullptr;
  const TapeOp& known = ops[it->second];
  if (!(known.op == op.op) || known.args.size() != op.args.size() || known.default_dtype != op.default_dtype || !same_results(known, op))
    return nullptr;
  for (size_t i = 0; i < op.args.size(); ++i)
    if (!same_constant_argument(known.args[i], op.args[i])) return nullptr;
  return same_operands(operands_of(known), operands_of(op)) ? &known : nullptr;
}

void EqualOps::add(const std::vector<TapeOp>& ops, size_t index) { newest_[hash_of(ops[index])] = index; }

}  // namespace tenon::capture
