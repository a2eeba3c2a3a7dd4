#include "passes/fusion/products.h"

#include "ir/graph/node.h"
#include "passes/fusion/kept.h"

namespace tenon::passes {
namespace {

using ir::kNoValue;
using ir::ValueId;

bool is_in_order(const ir::TensorType& type) { return type.strides == ir::contiguous_strides(type.sizes); }

bool is_dense(const ir::TensorType& type) { return is_in_order(type) || (type.strides[0] == 1 && type.strides[1] == type.sizes[0]); }

bool is_one(const ir::Node& node, size_t index) { return ir::plain_text(node.args[index]) == "1"; }

}  // namespace

std::vector<ir::Group> find_products(const ir::Graph& graph) {
  Kept is_kept(graph);
  std::vector<ir::Group> out;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& node = graph.nodes[i];
    bool has_row = node.op == "aten::addmm";
    if ((node.op != "aten::mm" && !has_row) || !ir::makes_one(graph, node)) continue;
    ir::Product product{ir::operand(node, has_row), ir::operand(node, has_row + 1)};
    if (has_row) product.row = ir::operand(node, 0);
    const ir::TensorType &left = graph.values[product.left].type, &right = graph.values[product.right].type,
                         &result = graph.values[ir::only_result(node)].type;
    bool fits = (left.dtype == ir::DType::f32 || left.dtype == ir::DType::bf16) && right.dtype == left.dtype && is_kept(product.right) &&
                is_dense(right) && left.sizes[0] > 0 && right.sizes[0] > 0 && right.sizes[1] > 0 && left.strides[1] == 1 &&
                left.strides[0] >= left.sizes[1] && is_in_order(result);
    if (has_row) {
      const ir::TensorType& row = graph.values[product.row].type;
      fits &= is_one(node, 3) && is_one(node, 4) && row.sizes == std::vector<int64_t>{right.sizes[1]} && is_in_order(row) &&
              row.dtype == left.dtype;
    }
    if (!fits || product.left == product.right || product.row == product.left || product.row == product.right) continue;
    ir::Group group{.nodes = {i}, .inputs = {product.left, product.right}, .outputs = {ir::only_result(node)}, .sizes = result.sizes};
    if (has_row) group.inputs.push_back(product.row);
    group.product = product;
    out.push_back(std::move(group));
  }
  return out;
}

}  // namespace tenon::passes
