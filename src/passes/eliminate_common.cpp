#include "passes/eliminate_common.h"

#include <unordered_map>

#include "ir/graph/node.h"
#include "ir/graph/print.h"
#include "ops/table.h"
#include "passes/alias_sets.h"
#include "passes/rewrite.h"

namespace tenon::passes {
namespace {

using ir::kNoValue;
using ir::ValueId;

class Eliminator {
 public:
  explicit Eliminator(ir::Graph& graph) : graph_(graph), aliases_(graph), renaming_(graph) {}

  size_t run() {
    size_t gone = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (i == graph_.backward_start) known_.clear();
      ir::Node& node = graph_.nodes[i];
      renaming_.apply(node, graph_);
      if (node.ordered || !node.writes.empty() || node.results.empty()) continue;
      std::string text = key(node);
      if (text.empty()) continue;
      auto [it, fresh] = known_.emplace(std::move(text), i);
      if (!fresh && merge(graph_.nodes[it->second], node)) ++gone;
    }
    if (gone > 0) renaming_.apply(graph_);
    return gone;
  }

 private:
  // Nodes with equal keys have the same op, operands, constants (the text distinguishes 0.0 from -0.0)
  // and types. For a view the types are sufficient. The key is empty if a constant is NaN, since its
  // text does not determine its bits.
  std::string key(const ir::Node& node) const {
    if (ops::view_kind(node.op) != ops::View::none && only_result(node) != kNoValue && operand(node, 0) != kNoValue)
      return "view %" + std::to_string(operand(node, 0)) + " " + described(graph_.values[only_result(node)]);
    std::string text = node.op;
    for (const ir::Argument& arg : node.args) {
      if (const auto* id = std::get_if<ValueId>(&arg)) {
        text += " %" + std::to_string(*id);
      } else if (const auto* list = std::get_if<ir::ValueList>(&arg)) {
        text += " [";
        for (ValueId item : list->ids) text += " %" + std::to_string(item);
        text += "]";
      } else {
        std::string constant = ir::print(std::get<ir::Attribute>(arg));
        if (constant.find("nan") != std::string::npos) return {};
        text += " " + constant;
      }
    }
    for (const ir::Result& result : node.results) {
      text += result.is_list ? " ->[" : " ->";
      for (ValueId id : result.ids) text += id == kNoValue ? " undef" : " " + described(graph_.values[id]);
    }
    return text + (node.no_grad ? " no_grad" : "");
  }

  static std::string described(const ir::Value& value) {
    return ir::print(value.type) + " &" + std::to_string(value.alias_of) + (value.requires_grad ? " grad" : "");
  }

  bool merge(const ir::Node& first, const ir::Node& again) {
    for (size_t r = 0; r < again.results.size(); ++r)
      for (size_t k = 0; k < again.results[r].ids.size(); ++k) {
        ValueId id = again.results[r].ids[k];
        if (id != kNoValue && !aliases_.may_replace(first.results[r].ids[k], id)) return false;
      }
    for (size_t r = 0; r < again.results.size(); ++r)
      for (size_t k = 0; k < again.results[r].ids.size(); ++k) {
        ValueId id = again.results[r].ids[k];
        if (id == kNoValue) continue;
        aliases_.merge(first.results[r].ids[k], id);
        renaming_.set(id, first.results[r].ids[k]);
      }
    return true;
  }

  ir::Graph& graph_;
  AliasSets aliases_;
  Renaming renaming_;
  std::unordered_map<std::string, size_t> known_;
};

}  // namespace

size_t eliminate_common(ir::Graph& graph) { return Eliminator(graph).run(); }

}  // namespace tenon::passes
