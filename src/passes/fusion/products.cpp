#include "passes/fusion/products.h"

#include <map>

#include "ir/graph/node.h"
#include "ops/lowerable.h"
#include "passes/fusion/kept.h"
#include "passes/fusion/users.h"

namespace tenon::passes {
namespace {

using ir::kNoValue;
using ir::ValueId;

bool is_in_order(const ir::TensorType& type) { return type.strides == ir::contiguous_strides(type.sizes); }

bool is_dense(const ir::TensorType& type) { return is_in_order(type) || (type.strides[0] == 1 && type.strides[1] == type.sizes[0]); }

bool is_one(const ir::Node& node, size_t index) { return ir::plain_text(node.args[index]) == "1"; }

// The sum that a node makes of this value and something else, in place or not; kNoValue if it is no such node.
ValueId sum_of(const ir::Graph& graph, const ir::Node& node, ValueId value) {
  if (node.op == "aten::add.Tensor" && ir::makes_one(graph, node) && is_one(node, 2)) return ir::only_result(node);
  bool in_place =
      node.op == "aten::add_.Tensor" && !node.ordered && is_one(node, 2) && node.writes.size() == 1 && node.writes[0].before == value;
  return in_place ? node.writes[0].after : kNoValue;
}

// A row that is added to a product in bf16, maybe to a view of it, is part of it, and so is a GELU of the sum; unless another kernel
// behind it takes the addition in. In f32 neither is cheaper there.
void take_row(const ir::Graph& graph, const Users& users, const Kept& is_kept, ir::Group& group) {
  const ir::TensorType& product = graph.values[group.outputs[0]].type;
  if (product.dtype != ir::DType::bf16) return;
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
  ValueId a = ir::operand(graph.nodes[next], 0), b = ir::operand(graph.nodes[next], 1), row = a == value ? b : a;
  if (a == b || row == kNoValue || !is_kept(row)) return;
  const ir::TensorType &type = graph.values[row].type, &result = graph.values[sum].type;
  if (type.dtype != product.dtype || type.sizes != std::vector<int64_t>{product.sizes[1]} || !is_in_order(type) || !is_in_order(result) ||
      result.sizes != graph.values[value].type.sizes || result.sizes.back() != product.sizes[1] || result.dtype != product.dtype)
    return;
  nodes.push_back(next);
  size_t last = users.only(sum);
  if (last != Users::kNone && graph.nodes[last].op == "aten::gelu" && ir::makes_one(graph, graph.nodes[last])) {
    nodes.push_back(last);
    sum = ir::only_result(graph.nodes[last]);
    if (!is_in_order(graph.values[sum].type)) return;
    group.product->gelu = ir::plain_text(graph.nodes[last].args[1]);
  } else {
    for (size_t user : users.of(sum))
      if (ops::lowerable(graph, graph.nodes[user])) return;
  }
  group.nodes.insert(group.nodes.end(), nodes.begin(), nodes.end());
  group.inputs.push_back(row);
  group.outputs = {sum};
  group.product->row = row;
}

// A new order of a graph's nodes.
class Order {
 public:
  Order(const ir::Graph& graph, const std::vector<ir::Group>& groups)
      : graph_(graph), groups_(groups), maker_(graph.values.size(), Users::kNone), is_placed_(graph.nodes.size(), false) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      ir::for_each_definition(graph.nodes[i], [&](ValueId id) { maker_[id] = i; });
      if (ValueId left = few_rows(i); left != kNoValue) products_[left].push_back(i);
    }
  }

  std::vector<size_t> find() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (is_placed_[i]) continue;
      ValueId left = few_rows(i);
      std::vector<size_t> fellows;
      if (left != kNoValue)
        for (size_t fellow : products_[left])
          if (fellow > i && !is_placed_[fellow] && is_behind_backward(fellow) == is_behind_backward(i) && is_ready(fellow))
            fellows.push_back(fellow);
      for (size_t fellow : fellows) place_operands(fellow);
      place(i);
      for (size_t fellow : fellows) place(fellow);
    }
    return std::move(order_);
  }

 private:
  // What a product multiplies its weight with, if that is so small; else kNoValue.
  ValueId few_rows(size_t i) const {
    const ir::Node& node = graph_.nodes[i];
    if (!ir::is_fused(node)) return kNoValue;
    const auto& product = groups_[ir::group_of(node)].product;
    return product && product->gelu.empty() && graph_.values[product->left].type.sizes[0] <= ir::kFewRows ? product->left : kNoValue;
  }
  bool is_behind_backward(size_t i) const { return i >= graph_.backward_start; }
  // But for views of what is there already.
  bool is_ready(size_t i) const {
    bool ready = true;
    ir::for_each_operand(graph_.nodes[i], [&](ValueId id) {
      size_t maker = maker_[id];
      ready = ready && (maker == Users::kNone || is_placed_[maker] || (ir::is_view(graph_, graph_.nodes[maker]) && is_ready(maker)));
    });
    return ready;
  }
  void place_operands(size_t i) {
    ir::for_each_operand(graph_.nodes[i], [&](ValueId id) {
      size_t maker = maker_[id];
      if (maker == Users::kNone || is_placed_[maker]) return;
      place_operands(maker);
      place(maker);
    });
  }
  void place(size_t i) {
    is_placed_[i] = true;
    order_.push_back(i);
  }

  const ir::Graph& graph_;
  const std::vector<ir::Group>& groups_;
  std::vector<size_t> maker_;  // of each value
  std::vector<bool> is_placed_;
  std::map<ValueId, std::vector<size_t>> products_;  // by what they multiply
  std::vector<size_t> order_;
};

}  // namespace

ir::Graph gather_products(ir::Graph graph, const std::vector<ir::Group>& groups) {
  std::vector<ir::Node> nodes;
  for (size_t i : Order(graph, groups).find()) nodes.push_back(graph.nodes[i]);
  graph.nodes = std::move(nodes);
  return graph;
}

std::vector<ir::Group> find_products(const ir::Graph& graph) {
  Kept is_kept(graph);
  Users users(graph);
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
    if (!has_row) take_row(graph, users, is_kept, group);
    out.push_back(std::move(group));
  }
  return out;
}

}  // namespace tenon::passes
