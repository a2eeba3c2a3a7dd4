#include "passes/fusion/loss.h"

#include "ir/graph/node.h"
#include "passes/fusion/call_builder.h"

namespace tenon::passes {
namespace {

using ir::kNoValue;
using ir::ValueId;

// Builds the graph that computes the loss of a log-softmax, with reduction mean or sum.
std::shared_ptr<const ir::Graph> rewrite(const ir::Graph& graph, const ir::Group& group, const ir::Node& softmax, const ir::Node& loss) {
  CallBuilder call(graph, group);
  ValueId x = operand(softmax, 0), target = operand(loss, 1);
  ir::DType type = call.type(x).dtype, index_type = call.type(target).dtype;
  ir::Size rows = call.type(x).sizes[0];
  ir::SizeList all = call.type(x).sizes, column = {rows, 1}, line = {rows};
  ir::Attribute none = ir::None{}, one = int64_t{1}, along = std::vector<int64_t>{1}, zero = int64_t{0}, yes = true, no = false;
  ValueId most = call.add("aten::amax", {x, along, yes}, column, type);
  ValueId powers = call.add("aten::exp", {call.add("aten::sub.Tensor", {x, most, one}, all, type)}, all, type);
  ValueId sums = call.add("aten::log", {call.add("aten::sum.dim_IntList", {powers, along, yes, none}, column, type)}, column, type);
  ValueId ignored = call.add("aten::eq.Scalar", {target, loss.args[4]}, line, ir::DType::boolean);
  ValueId index = call.add("aten::masked_fill.Scalar", {target, ignored, zero}, line, index_type);
  index = call.add("aten::view", {index, ir::Attribute(column)}, column, index_type);
  ValueId own = call.add("aten::gather", {x, one, index, no}, column, type);
  ValueId each = call.add("aten::sub.Tensor", {sums, call.add("aten::sub.Tensor", {own, most, one}, column, type), one}, column, type);
  each = call.add("aten::view", {each, ir::Attribute(line)}, line, type);
  each = call.add("aten::masked_fill.Scalar", {each, ignored, ir::Attribute(0.0)}, line, type);
  ValueId out = call.add("aten::sum", {each, none}, {}, type);
  if (ir::plain_text(loss.args[3]) == "1") {
    ValueId counted = call.add("aten::logical_not", {ignored}, line, ir::DType::boolean);
    ValueId count = call.add("aten::sum", {counted, none}, {}, ir::DType::i64);
    out = call.add("aten::div.Tensor", {out, count}, {}, type);
  }
  return call.finish({out});
}

}  // namespace

std::vector<ir::Group> find_losses(const ir::Graph& graph) {
  Producers producers(graph);
  std::vector<ir::Group> out;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& loss = graph.nodes[i];
    if (loss.op != "aten::nll_loss_forward" || operand(loss, 2) != kNoValue) continue;
    ValueId result = loss.results[0].ids[0], target = operand(loss, 1), logs = operand(loss, 0);
    std::string reduction = ir::plain_text(loss.args[3]);
    if (result == kNoValue || loss.results[1].ids[0] != kNoValue || (reduction != "1" && reduction != "2")) continue;
    const ir::Node* softmax = producers.only(logs);
    if (!softmax || softmax->op != "aten::_log_softmax" || ir::plain_text(softmax->args[2]) != "false") continue;
    ValueId x = operand(*softmax, 0);
    const ir::TensorType& type = graph.values[x].type;
    std::string dim = ir::plain_text(softmax->args[1]);
    // Narrower types would be rounded between log-softmax and loss.
    bool is_exact = type.dtype == ir::DType::f32 || type.dtype == ir::DType::f64;
    if (!is_exact || type.sizes.size() != 2 || (dim != "1" && dim != "-1") || type.sizes[0] == 0 || type.sizes[1] == 0) continue;
    ir::Group group{.nodes = {producers.node_index(logs), i}, .inputs = {x, target}, .outputs = {result}, .sizes = type.sizes};
    group.computation = ir::Rewrite{rewrite(graph, group, *softmax, loss)};
    out.push_back(std::move(group));
  }
  return out;
}

}  // namespace tenon::passes
