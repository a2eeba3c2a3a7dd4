#include "passes/fusion/convolutions.h"

#include <algorithm>

#include "ir/graph/node.h"
#include "ops/lowering.h"
#include "passes/fusion/state_values.h"
#include "passes/fusion/users.h"

namespace tenon::passes {
namespace {

using ir::kNoValue;
using ir::ValueId;

class ConvolutionFinder {
 public:
  explicit ConvolutionFinder(const ir::Graph& graph) : graph_(graph), is_state_(graph), users_(graph) {}

  std::vector<ir::Group> run() {
    std::vector<ir::Group> out;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (begins(graph_.nodes[i])) out.push_back(follow(i));
    return out;
  }

 private:
  const ir::TensorType& type(ValueId id) const { return graph_.values[id].type; }

  bool is_vector(ValueId id, const ir::Size& size) const {
    return id != kNoValue && is_state_(id) && ir::same(type(id).sizes, {size}) && ir::same(type(id).strides, {1});
  }

  // Returns whether a node is a supported 2-d forward convolution.
  bool begins(const ir::Node& node) const {
    if (node.op != "aten::convolution" || !ir::makes_one(graph_, node)) return false;
    ValueId x = ir::operand(node, 0), w = ir::operand(node, 1), b = ir::operand(node, 2);
    const ir::TensorType &in = type(x), &weight = type(w);
    bool fits = in.sizes.size() == 4 && weight.sizes.size() == 4 && is_state_(w) &&
                same(weight.strides, ir::contiguous_strides(weight.sizes)) && (in.dtype == ir::DType::f32 || in.dtype == ir::DType::bf16) &&
                weight.dtype == in.dtype && ops::has_elements(in) && ops::has_elements(weight) &&
                ops::has_elements(type(ir::only_result(node))) && x != w && ir::plain_text(node.args[6]) == "false";
    for (size_t k : {3, 4, 5}) {
      auto pair = ir::integers(node, k);
      fits &= pair && pair->size() == 2;
    }
    return fits && ir::integer(node, 8) && (b == kNoValue || (is_vector(b, weight.sizes[0]) && type(b).dtype == in.dtype));
  }

  // Returns the only user of a value if it is this op and belongs to no other group.
  const ir::Node* next(ValueId id, const char* op) const {
    size_t user = users_.only(id);
    if (user == Users::kNone || graph_.nodes[user].op != op || std::count(taken_.begin(), taken_.end(), user)) return nullptr;
    return &graph_.nodes[user];
  }

  ir::Group follow(size_t first) {
    const ir::Node& node = graph_.nodes[first];
    auto ints = [&](size_t k) { return *ir::integers(node, k); };
    ir::Convolution what{.stride = ints(3), .padding = ints(4), .dilation = ints(5), .groups = *ir::integer(node, 8)};
    ir::Group group{.nodes = {first}, .inputs = {ir::operand(node, 0), ir::operand(node, 1)}};
    if (ir::operand(node, 2) != kNoValue) {
      what.has_bias = true;
      group.inputs.push_back(ir::operand(node, 2));
    }
    ValueId result = ir::only_result(node);
    auto take = [&](const ir::Node& taken, ValueId then) {
      group.nodes.push_back(static_cast<size_t>(&taken - graph_.nodes.data()));
      taken_.push_back(group.nodes.back());
      result = then;
    };
    if (const ir::Node* norm = next(result, "aten::native_batch_norm"); norm && has_known_statistics(*norm, result)) {
      what.has_norm = true;
      for (size_t k : {1, 2, 3, 4}) group.inputs.push_back(ir::operand(*norm, k));
      what.epsilon_scalar = ir::scalar_in(norm->args[7]);
      if (const double* constant = ir::constant<double>(*norm, 7)) what.epsilon = *constant;
      take(*norm, norm->results[0].ids[0]);
    }
    if (const ir::Node* add = next(result, "aten::add.Tensor"); add && is_sum(*add, result, group)) {
      what.has_other = true;
      group.inputs.push_back(ir::operand(*add, 0) == result ? ir::operand(*add, 1) : ir::operand(*add, 0));
      take(*add, ir::only_result(*add));
    }
    if (const ir::Node* relu = next(result, "aten::relu"); relu && ir::makes_one(graph_, *relu)) {
      what.has_relu = true;
      take(*relu, ir::only_result(*relu));
    }
    group.outputs = {result};
    group.sizes = type(result).sizes;
    group.computation = std::move(what);
    return group;
  }

  bool has_known_statistics(const ir::Node& norm, ValueId of) const {
    const ir::Size& channels = type(of).sizes[1];
    bool fits = ir::operand(norm, 0) == of && ir::plain_text(norm.args[5]) == "false" && norm.writes.empty() && !norm.ordered;
    for (size_t k : {1, 2, 3, 4}) {
      ValueId vector = ir::operand(norm, k);
      fits &= is_vector(vector, channels);
      for (size_t other : {1, 2, 3, 4}) fits &= k == other || vector != ir::operand(norm, other);
    }
    ValueId result = norm.results[0].ids[0];
    return fits && result != kNoValue && norm.results[1].ids[0] == kNoValue && norm.results[2].ids[0] == kNoValue &&
           type(result).dtype == type(of).dtype && (ir::scalar_in(norm.args[7]) != ir::kNoScalar || ir::constant<double>(norm, 7));
  }

  bool is_sum(const ir::Node& add, ValueId of, const ir::Group& group) const {
    ValueId a = ir::operand(add, 0), b = ir::operand(add, 1), other = a == of ? b : a;
    return ir::makes_one(graph_, add) && a != kNoValue && b != kNoValue && a != b && ir::plain_text(add.args[2]) == "1" &&
           ir::same(type(other).sizes, type(of).sizes) && type(other).dtype == type(of).dtype &&
           !std::count(group.inputs.begin(), group.inputs.end(), other);
  }

  const ir::Graph& graph_;
  StateValues is_state_;
  Users users_;
  std::vector<size_t> taken_;
};

ir::SizeList channels_last(const ir::SizeList& sizes) { return {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]}; }

}  // namespace

std::vector<ir::Group> find_convolutions(const ir::Graph& graph) { return ConvolutionFinder(graph).run(); }

// Sums over the pixels of each channel, as for batch statistics, which kernels compute from contiguous images only.
static bool sums_channels(const ir::Node& node) {
  if (node.op.find("batch_norm") == std::string::npos) return false;
  return node.op.find("backward") != std::string::npos || node.results.size() < 3 || node.results[1].ids[0] != kNoValue ||
         node.results[2].ids[0] != kNoValue;
}

ir::Graph prefer_channels_last(const ir::Graph& graph) {
  std::vector<ir::Group> groups = find_convolutions(graph);
  if (groups.empty()) return graph;
  std::vector<bool> is_ours(graph.nodes.size(), false);
  for (const ir::Group& group : groups)
    for (size_t i : group.nodes) is_ours[i] = true;
  auto computes = [&](const ir::Graph& in, size_t i) {
    if (is_ours[i]) return true;
    if (sums_channels(in.nodes[i])) return false;
    ops::Lowering lowering = ops::lowering_of(in, in.nodes[i]);
    return ops::uses_entry(lowering) || std::holds_alternative<ops::Pooling>(lowering);
  };
  // Images that only convolutions and kernels of ours produce and read may change their layout.
  std::vector<bool> changes_layout(graph.values.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (computes(graph, i))
      ir::for_each_definition(graph.nodes[i], [&](ValueId id) {
        const ir::Value& value = graph.values[id];
        changes_layout[id] = value.type.sizes.size() == 4 && value.alias_of == kNoValue && graph.nodes[i].writes.empty() &&
                             same(value.type.strides, ir::contiguous_strides(value.type.sizes));
      });
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (!computes(graph, i)) ir::for_each_operand(graph.nodes[i], [&](ValueId id) { changes_layout[id] = false; });
  for (ValueId id : graph.outputs)
    if (id != kNoValue) changes_layout[id] = false;
  for (const auto* writes : {&graph.write_backs, &graph.forward_write_backs})
    for (const ir::WriteBack& write : *writes) changes_layout[write.value] = false;
  ir::Graph out = graph;
  for (size_t id = 0; id < changes_layout.size(); ++id)
    if (changes_layout[id]) out.values[id].type.strides = channels_last(out.values[id].type.sizes);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (computes(graph, i) != computes(out, i)) return graph;
  return out;
}

}  // namespace tenon::passes
