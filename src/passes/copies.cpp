#include "passes/copies.h"

#include "ir/graph/node.h"
#include "ops/lowerable.h"
#include "ops/table.h"
#include "passes/layout.h"

namespace tenon::passes {
bool is_copy(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "aten::clone" && node.op != "aten::_to_copy") return false;
  return makes_one(graph, node) && operand(node, 0) != ir::kNoValue;
}

bool spell_copy(const ir::Graph& graph, ir::Node& node, ir::ValueId source) {
  const ir::TensorType &from = graph.values[source].type, &to = graph.values[only_result(node)].type;
  if (!same(from.sizes, to.sizes) || to.offset != 0 || !ops::has_elements(to) || is_complex(from.dtype) != is_complex(to.dtype))
    return false;
  ir::Attribute format = ir::None{};  // Preserves the layout.
  if (!is_dense(from) || !same(from.strides, to.strides)) {
    if (!is_plain(to)) return false;
    format = int64_t{0};  // Contiguous.
  }
  if (from.dtype == to.dtype) {
    node.op = "aten::clone";
    node.args = {source, format};
  } else {
    ir::Attribute none = ir::None{};
    node.op = "aten::_to_copy";
    node.args = {source, ir::Attribute(ops::scalar_type_id(to.dtype)), none, none, none, ir::Attribute(false), format};
  }
  return true;
}

}  // namespace tenon::passes
