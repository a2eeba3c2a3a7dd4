#include "passes/canonicalise.h"

#include <algorithm>

#include "ir/graph/node.h"
#include "ops/lowerable.h"
#include "ops/table.h"
#include "passes/alias_sets.h"
#include "passes/copies.h"
#include "passes/layout.h"

namespace tenon::passes {
namespace {

using ir::DType;
using ir::kNoValue;
using ir::TensorType;
using ir::ValueId;

class Canonicaliser {
 public:
  explicit Canonicaliser(ir::Graph& graph) : graph_(graph), aliases_(graph) {}

  size_t run() {
    size_t changes = 0;
    for (ir::Node& node : graph_.nodes) {
      bool changed = unorder_floats(node);
      changed |= make_functional(node);
      changed |= scalar_to_tensor(node);
      changed |= spell_one_copy(node);
      changes += changed;
    }
    return changes;
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.values[id].type; }

  // An op that throws only on integers need not stay ordered if its result is floating.
  bool unorder_floats(ir::Node& node) const {
    const ops::Facts* facts = node.ordered ? ops::find(node.op) : nullptr;
    if (!facts || !facts->integers_throw || node.results.size() != 1 || !is_floating(type(node.results[0].ids[0]).dtype)) return false;
    node.ordered = false;
    return true;
  }

  // Returns whether a node overwrites exactly its first operand, a contiguous tensor that the graph
  // made, and returns it.
  bool overwrites_own(const ir::Node& node) const {
    if (node.ordered || !aliases_.overwrites_own(graph_, node) || node.writes[0].argument != 0) return false;
    if (operand(node, 0) != node.writes[0].before) return false;
    const TensorType& own = type(node.writes[0].before);
    return is_plain(own) && ops::has_elements(own) && !is_complex(own.dtype);
  }

  // An in-place op converts its result to the operand's type. Returns whether promotion gives that type anyway.
  static bool keeps_dtype(const ir::Attribute& attribute, DType own) {
    if (const auto* tensor = std::get_if<ir::ScalarTensor>(&attribute)) {
      if (tensor->plain) return tensor->dtype == own || tensor->dtype == DType::boolean;
      bool fits = is_floating(own) ? !is_complex(tensor->dtype) : is_integer(own) && is_integer(tensor->dtype);
      return fits || tensor->dtype == own || tensor->dtype == DType::boolean;
    }
    if (std::holds_alternative<std::complex<double>>(attribute)) return false;
    bool real = std::holds_alternative<double>(attribute) || std::holds_alternative<ir::Scalar>(attribute);
    bool integer = std::holds_alternative<ir::Size>(attribute);
    return is_floating(own) || (!real && (!integer || is_integer(own)));
  }

  // ATen derives a result's layout from the operands, beginning with the first. A dimension of size 1
  // leaves the order open, so that the next operand decides.
  bool keeps_layout(const TensorType& other, const TensorType& own) const {
    if (ir::same(other.sizes, own.sizes) && ir::same(other.strides, own.strides)) return true;
    bool clear = std::none_of(own.sizes.begin(), own.sizes.end(), [](const ir::Size& size) { return size == 1; });
    return clear && expand_strides(other, own.sizes).has_value();
  }

  bool functional_gives_same_type(const ir::Node& node, const TensorType& own) const {
    for (size_t i = 1; i < node.args.size(); ++i) {
      if (const auto* id = std::get_if<ValueId>(&node.args[i])) {
        if (*id == kNoValue) continue;
        const TensorType& other = type(*id);
        if (other.dtype != own.dtype && other.dtype != DType::boolean) return false;
        if (!keeps_layout(other, own)) return false;
      } else if (const auto* attribute = std::get_if<ir::Attribute>(&node.args[i])) {
        if (!keeps_dtype(*attribute, own.dtype)) return false;
      } else {
        return false;
      }
    }
    return true;
  }

  const ops::Facts* equivalent_ops(const ir::Node& node) const {
    const ops::Facts* facts = ops::find(node.op);
    if (!facts || !facts->rounds_differently || only_result(node) == kNoValue) return facts;
    DType dtype = type(only_result(node)).dtype;
    return dtype == DType::bf16 || dtype == DType::f16 ? nullptr : facts;
  }

  bool make_functional(ir::Node& node) {
    if (!overwrites_own(node)) return false;
    if (node.op == "aten::copy_") return replace_copy(node);
    const ops::Facts* facts = equivalent_ops(node);
    if (!facts || facts->functional.empty() || !functional_gives_same_type(node, type(node.writes[0].before))) return false;
    node.op = facts->functional;
    node.writes.clear();
    return true;
  }

  // A copy_ over a whole tensor becomes a copy of the source.
  bool replace_copy(ir::Node& node) {
    ValueId source = operand(node, 1);
    if (source == kNoValue || aliases_.same(source, node.writes[0].before)) return false;
    if (!spell_copy(graph_, node, source)) return false;
    node.writes.clear();
    return true;
  }

  bool scalar_to_tensor(ir::Node& node) const {
    const ops::Facts* facts = equivalent_ops(node);
    const ir::Attribute* attribute = constant(node, 1);
    if (!facts || facts->tensor_form.empty() || !attribute) return false;
    ir::ScalarTensor tensor;
    if (const auto* real = std::get_if<double>(attribute)) tensor = {DType::f64, *real};
    else if (const auto* scalar = std::get_if<ir::Scalar>(attribute)) tensor = {DType::f64, *scalar};
    else if (const auto* integer = std::get_if<ir::Size>(attribute)) tensor = {DType::i64, *integer};
    else if (const auto* flag = std::get_if<bool>(attribute)) tensor = {DType::boolean, *flag};
    else return false;
    node.op = facts->tensor_form;
    node.args[1] = ir::Attribute(tensor);
    return true;
  }

  bool spell_one_copy(ir::Node& node) const {
    if (!is_copy(graph_, node)) return false;
    ir::Node spelled = node;
    if (!spell_copy(graph_, spelled, operand(node, 0)) || (spelled.op == node.op && spelled.args == node.args)) return false;
    node = std::move(spelled);
    return true;
  }

  ir::Graph& graph_;
  AliasSets aliases_;
};

}  // namespace

size_t canonicalise(ir::Graph& graph) { return Canonicaliser(graph).run(); }

}  // namespace tenon::passes
