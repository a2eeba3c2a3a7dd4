#include "passes/fusion/products.h"

#include <map>

#include "ir/graph/node.h"
#include "passes/fusion/state_values.h"
#include "passes/fusion/users.h"

namespace tenon::passes {
namespace {

using ir::kNoValue;
using ir::ValueId;

bool is_contiguous(const ir::TensorType& type) { return same(type.strides, ir::contiguous_strides(type.sizes)); }

bool is_contiguous_or_transposed(const ir::TensorType& type) {
  return is_contiguous(type) || (type.strides[0] == 1 && same(type.strides[1], type.sizes[0]));
}

bool is_one(const ir::Node& node, size_t index) { return ir::plain_text(node.args[index]) == "1"; }

// Returns the result of a node that adds something to this value, in place or not; kNoValue if it is no such node.
ValueId sum_of(const ir::Graph& graph, const ir::Node& node, ValueId value) {
  if (node.op == "aten::add.Tensor" && ir::makes_one(graph, node) && is_one(node, 2)) return ir::only_result(node);
  bool in_place =
      node.op == "aten::add_.Tensor" && !node.ordered && is_one(node, 2) && node.writes.size() == 1 && node.writes[0].before == value;
  return in_place ? node.writes[0].after : kNoValue;
}

// Fuses a bias that is added to a bf16 product or a view of it, and a GELU of the sum, as the product's epilogue; unless the addition can
// be fused into a kernel after it. In f32 such an epilogue is not faster.
void take_bias(const ir::Graph& graph, const ops::Lowerings& lowerings, const Users& users, const StateValues& is_state, ir::Group& group,
               ir::Product& product) {
  const ir::TensorType& type = graph.values[group.outputs[0]].type;
  if (type.dtype != ir::DType::bf16) return;
  ValueId value = group.outputs[0];
  std::vector<size_t> nodes;
  size_t next = users.only(value);
  if (next != Users::kNone && (graph.nodes[next].op == "aten::view" || graph.nodes[next].op == "aten::_unsafe_view")) {
    nodes.push_back(next);
    value = ir::only_result(graph.nodes[next]);
    next = value == kNoValue ? Users::kNone : users.only(value);
  }
  ValueId sum = next == Users::kNone ? kNoValue : sum_of(graph, graph.nodes[next], value);
  if (sum == kNoValue) return;
  ValueId a = ir::operand(graph.nodes[next], 0), b = ir::operand(graph.nodes[next], 1), bias = a == value ? b : a;
  if (a == b || bias == kNoValue || !is_state(bias)) return;
  const ir::TensorType &added = graph.values[bias].type, &result = graph.values[sum].type;
  if (added.dtype != type.dtype || !same(added.sizes, {type.sizes[1]}) || !is_contiguous(added) || !is_contiguous(result) ||
      !same(result.sizes, graph.values[value].type.sizes) || !same(result.sizes.back(), type.sizes[1]) || result.dtype != type.dtype)
    return;
  nodes.push_back(next);
  size_t last = users.only(sum);
  if (last != Users::kNone && graph.nodes[last].op == "aten::gelu" && ir::makes_one(graph, graph.nodes[last])) {
    nodes.push_back(last);
    sum = ir::only_result(graph.nodes[last]);
    if (!is_contiguous(graph.values[sum].type)) return;
    product.gelu = ir::plain_text(graph.nodes[last].args[1]);
  } else {
    for (size_t user : users.of(sum))
      if (ops::uses_entry(lowerings[user])) return;
  }
  group.nodes.insert(group.nodes.end(), nodes.begin(), nodes.end());
  group.inputs.push_back(bias);
  group.outputs = {sum};
  product.bias = bias;
}

// Reorders a graph's nodes so that small products of one operand are adjacent.
class NodeOrder {
 public:
  NodeOrder(const ir::Graph& graph, const std::vector<ir::Group>& groups)
      : graph_(graph), groups_(groups), producer_(graph.values.size(), Users::kNone), is_appended_(graph.nodes.size(), false) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      ir::for_each_definition(graph.nodes[i], [&](ValueId id) { producer_[id] = i; });
      if (ValueId left = gemv_operand(i); left != kNoValue) products_[left].push_back(i);
    }
  }

  std::vector<size_t> find() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (is_appended_[i]) continue;
      ValueId left = gemv_operand(i);
      std::vector<size_t> siblings;
      if (left != kNoValue)
        for (size_t sibling : products_[left])
          if (sibling > i && !is_appended_[sibling] && is_behind_backward(sibling) == is_behind_backward(i) && is_ready(sibling))
            siblings.push_back(sibling);
      for (size_t sibling : siblings) append_operands(sibling);
      append(i);
      for (size_t sibling : siblings) append(sibling);
    }
    return std::move(order_);
  }

 private:
  // Returns the left operand of a product with few enough rows for the gemv kernel, otherwise kNoValue.
  ValueId gemv_operand(size_t i) const {
    const ir::Node& node = graph_.nodes[i];
    if (!ir::is_fused(node)) return kNoValue;
    const auto* product = std::get_if<ir::Product>(&groups_[ir::group_of(node)].computation);
    return product && product->gelu.empty() && graph_.values[product->left].type.sizes[0] <= ir::kMaxGemvRows ? product->left : kNoValue;
  }
  bool is_behind_backward(size_t i) const { return i >= graph_.backward_start; }
  // Returns whether all operands are available, or are views of available values.
  bool is_ready(size_t i) const {
    bool ready = true;
    ir::for_each_operand(graph_.nodes[i], [&](ValueId id) {
      size_t producer = producer_[id];
      ready = ready &&
              (producer == Users::kNone || is_appended_[producer] || (ir::is_view(graph_, graph_.nodes[producer]) && is_ready(producer)));
    });
    return ready;
  }
  void append_operands(size_t i) {
    ir::for_each_operand(graph_.nodes[i], [&](ValueId id) {
      size_t producer = producer_[id];
      if (producer == Users::kNone || is_appended_[producer]) return;
      append_operands(producer);
      append(producer);
    });
  }
  void append(size_t i) {
    is_appended_[i] = true;
    order_.push_back(i);
  }

  const ir::Graph& graph_;
  const std::vector<ir::Group>& groups_;
  std::vector<size_t> producer_;  // Producing node per value.
  std::vector<bool> is_appended_;
  std::map<ValueId, std::vector<size_t>> products_;  // Small products by their left operand.
  std::vector<size_t> order_;
};

}  // namespace

ir::Graph gather_products(ir::Graph graph, const std::vector<ir::Group>& groups) {
  std::vector<ir::Node> nodes;
  for (size_t i : NodeOrder(graph, groups).find()) nodes.push_back(graph.nodes[i]);
  graph.nodes = std::move(nodes);
  return graph;
}

std::vector<ir::Group> find_products(const ir::Graph& graph, const ops::Lowerings& lowerings) {
  StateValues is_state(graph);
  Users users(graph);
  std::vector<ir::Group> out;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& node = graph.nodes[i];
    bool has_bias = node.op == "aten::addmm";
    if ((node.op != "aten::mm" && !has_bias) || !ir::makes_one(graph, node)) continue;
    ir::Product product{ir::operand(node, has_bias), ir::operand(node, has_bias + 1)};
    if (has_bias) product.bias = ir::operand(node, 0);
    const ir::TensorType &left = graph.values[product.left].type, &right = graph.values[product.right].type,
                         &result = graph.values[ir::only_result(node)].type;
    bool fits = (left.dtype == ir::DType::f32 || left.dtype == ir::DType::bf16) && right.dtype == left.dtype && is_state(product.right) &&
                is_contiguous_or_transposed(right) && left.sizes[0] > 0 && right.sizes[0] > 0 && right.sizes[1] > 0 &&
                left.strides[1] == 1 && left.strides[0] >= left.sizes[1] && is_contiguous(result);
    if (has_bias) {
      const ir::TensorType& bias = graph.values[product.bias].type;
      fits &= is_one(node, 3) && is_one(node, 4) && same(bias.sizes, {right.sizes[1]}) && is_contiguous(bias) && bias.dtype == left.dtype;
    }
    if (!fits || product.left == product.right || product.bias == product.left || product.bias == product.right) continue;
    ir::Group group{.nodes = {i}, .inputs = {product.left, product.right}, .outputs = {ir::only_result(node)}, .sizes = result.sizes};
    if (has_bias) group.inputs.push_back(product.bias);
    if (!has_bias) take_bias(graph, lowerings, users, is_state, group, product);
    group.computation = std::move(product);
    out.push_back(std::move(group));
  }
  return out;
}

}  // namespace tenon::passes
