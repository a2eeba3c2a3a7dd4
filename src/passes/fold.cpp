#include "passes/fold.h"

#include "ir/graph/node.h"
#include "ops/table.h"
#include "passes/alias_sets.h"
#include "passes/constants.h"
#include "passes/copies.h"
#include "passes/layout.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

using ir::DType;
using ir::kNoValue;
using ir::TensorType;
using ir::ValueId;

class Folder {
 public:
  explicit Folder(ir::Graph& graph) : graph_(graph), aliases_(graph), renaming_(graph), known_(graph.values.size()) {}

  size_t run() {
    size_t changes = 0;
    for (ir::Node& node : graph_.nodes) {
      renaming_.apply(node, graph_);
      ValueId result = only_result(node);
      if (node.ordered || result == kNoValue) continue;
      known_[result] = evaluate(node, result);
      if (known_[result]) changes += make_full(node, result);
      else if (ValueId same = unchanged(node); same != kNoValue && may_replace(same, result)) {
        aliases_.merge(same, result);
        renaming_.set(result, same);
        ++changes;
      }
    }
    if (changes > 0) renaming_.apply(graph_);
    return changes;
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.values[id].type; }

  bool may_replace(ValueId same, ValueId result) const {
    return ir::same(type(same), type(result)) && aliases_.may_replace_copy(same, result);
  }

  // Returns the constant that an argument is, or that all its elements are, as an element of type `to`.
  std::optional<Element> constant_of(const ir::Node& node, size_t index, DType to) const {
    if (const ir::Attribute* attribute = constant(node, index)) return element_in(*attribute, to);
    ValueId id = operand(node, index);
    bool known = id != kNoValue && known_[id] && known_[id]->dtype == to;
    return known ? known_[id] : std::nullopt;
  }

  // Returns '+', '-', '*' or '/', or 0 for another op or one whose alpha is not 1.
  static char arithmetic(const ir::Node& node) {
    if (node.op == "aten::mul.Tensor") return '*';
    if (node.op == "aten::div.Tensor") return '/';
    if (ir::integer(node, 2) != 1) return 0;
    return node.op == "aten::add.Tensor" ? '+' : node.op == "aten::sub.Tensor" ? '-' : 0;
  }

  std::optional<Element> evaluate(const ir::Node& node, ValueId result) const {
    const ops::Facts* facts = ops::find(node.op);
    DType to = type(result).dtype;
    if (facts && facts->fill)
      return facts->fill->argument < 0 ? element_in(ir::Attribute(int64_t{facts->fill->constant}), to)
                                       : constant_of(node, static_cast<size_t>(facts->fill->argument), to);
    if (!node.writes.empty()) return std::nullopt;
    if (facts && facts->view != ops::View::none) return constant_of(node, 0, to);
    if (is_copy(graph_, node)) {
      const auto& element = known_[operand(node, 0)];
      return element ? convert(*element, to) : std::nullopt;
    }
    char sign = arithmetic(node);
    if (!sign) return std::nullopt;
    auto a = constant_of(node, 0, to), b = constant_of(node, 1, to);
    return a && b ? compute(sign, *a, *b) : std::nullopt;
  }

  bool make_full(ir::Node& node, ValueId result) {
    if (node.op == "aten::full" || graph_.values[result].alias_of != kNoValue || !is_plain(type(result))) return false;
    if (!node.writes.empty() && !aliases_.overwrites_own(graph_, node)) return false;
    ir::Attribute none = ir::None{};
    node.op = "aten::full";
    node.args = {ir::Attribute(type(result).sizes),
                 to_attribute(*known_[result]),
                 ir::Attribute(ops::scalar_type_id(type(result).dtype)),
                 none,
                 none,
                 none};
    node.writes.clear();
    return true;
  }

  // Returns the operand that the result equals bit for bit.
  ValueId unchanged(const ir::Node& node) const {
    if (!makes_one(graph_, node)) return kNoValue;
    if (is_copy(graph_, node)) return operand(node, 0);
    DType to = type(only_result(node)).dtype;
    bool exact = to == DType::f32 || to == DType::f64;
    char sign = arithmetic(node);
    if (!sign || !(exact || to == DType::i64 || to == DType::i32)) return kNoValue;
    for (size_t other : {size_t{1}, size_t{0}}) {
      if (other == 0 && (sign == '-' || sign == '/')) break;
      auto element = constant_of(node, other, to);
      if (!element) continue;
      bool neutral = sign == '*' || sign == '/' ? equals_bitwise(*element, 1)
                     : sign == '+' && exact     ? equals_bitwise(*element, -0.0)
                                                : equals_bitwise(*element, 0);
      if (neutral) return operand(node, 1 - other);
    }
    return kNoValue;
  }

  ir::Graph& graph_;
  AliasSets aliases_;
  Renaming renaming_;
  std::vector<std::optional<Element>> known_;  // The constant that all elements of a value are.
};

}  // namespace

size_t fold(ir::Graph& graph) { return Folder(graph).run(); }

}  // namespace tenon::passes
