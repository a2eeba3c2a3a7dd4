#include "passes/decompose.h"

#include <algorithm>
#include <numeric>

#include "ir/graph/node.h"
#include "passes/layout.h"

namespace tenon::passes {
namespace {

using ir::TensorType;
using ir::ValueId;
using Sizes = std::vector<int64_t>;

class Decomposer {
 public:
  explicit Decomposer(ir::Graph& graph) : graph_(graph) {}

  size_t run() {
    size_t changes = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (i == graph_.backward_start) border_ = out_.size();
      node_ = std::move(graph_.nodes[i]);
      if (stack() || repeat() || shuffle() || split_gradients()) ++changes;
      else out_.push_back(std::move(node_));
    }
    if (graph_.backward_start < graph_.nodes.size()) graph_.backward_start = border_;
    else if (graph_.backward_start == graph_.nodes.size()) graph_.backward_start = out_.size();
    graph_.nodes = std::move(out_);
    return changes;
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.values[id].type; }

  // A node like the one that goes, apart from what it does.
  ir::Node like(std::string op, std::vector<ir::Argument> args, ValueId result) const {
    ir::Node out = node_;
    out.op = std::move(op);
    out.args = std::move(args);
    out.results = {{false, {result}}};
    return out;
  }

  ValueId view(ValueId of, const std::string& op, std::vector<ir::Attribute> rest, Sizes sizes, Sizes strides) {
    TensorType seen{type(of).dtype, std::move(sizes), std::move(strides), type(of).offset};
    ValueId result = graph_.add_value(std::move(seen), of, graph_.values[of].requires_grad);
    std::vector<ir::Argument> args = {of};
    for (ir::Attribute& attribute : rest) args.emplace_back(std::move(attribute));
    out_.push_back(like(op, std::move(args), result));
    return result;
  }

  ValueId unsqueeze(ValueId of, size_t dim) {
    Sizes sizes = type(of).sizes, strides = type(of).strides;
    int64_t stride = dim < sizes.size() ? sizes[dim] * strides[dim] : 1;
    sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(dim), 1);
    strides.insert(strides.begin() + static_cast<ptrdiff_t>(dim), stride);
    return view(of, "aten::unsqueeze", {static_cast<int64_t>(dim)}, std::move(sizes), std::move(strides));
  }

  // A copy in order, seen in the sizes of the result.
  void copy_into_result(ValueId of) {
    constexpr int64_t kContiguous = 0;  // at::MemoryFormat
    TensorType plain{type(of).dtype, type(of).sizes, ir::contiguous_strides(type(of).sizes)};
    ValueId result = only_result(node_), copy = graph_.add_value(plain, ir::kNoValue, graph_.values[result].requires_grad);
    out_.push_back(like("aten::clone", {of, ir::Attribute(kContiguous)}, copy));
    out_.push_back(like("aten::_unsafe_view", {copy, ir::Attribute(type(result).sizes)}, result));
    graph_.values[result].alias_of = copy;
  }

  bool makes_plain() const { return makes_one(graph_, node_) && is_plain(type(only_result(node_))) && numel(type(only_result(node_))) > 0; }

  bool stack() {
    const auto* list = node_.op == "aten::stack" && makes_plain() ? std::get_if<ir::ValueList>(&node_.args[0]) : nullptr;
    const auto* dim = constant<int64_t>(node_, 1);
    if (!list || !dim) return false;
    // Of four or five dimensions the operands' order may be taken for channels_last.
    const TensorType& made = type(only_result(node_));
    size_t rank = made.sizes.size();
    if (rank >= 4 && (made.sizes[rank - 1] == 1 || made.sizes[rank - 2] == 1)) return false;
    for (ValueId id : list->ids)
      if (id == ir::kNoValue || !is_plain(type(id)) || type(id).dtype != made.dtype) return false;
    auto at = static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(rank) : *dim);
    ir::ValueList seen;
    for (ValueId id : list->ids) seen.ids.push_back(unsqueeze(id, at));
    out_.push_back(like("aten::cat", {seen, ir::Attribute(static_cast<int64_t>(at))}, only_result(node_)));
    return true;
  }

  // [3, 4] twice and once: [2, 3, 4] with a first dimension that goes nowhere, copied.
  bool repeat() {
    if (node_.op != "aten::repeat" || !makes_plain()) return false;
    ValueId of = operand(node_, 0);
    const auto* times = constant<Sizes>(node_, 1);
    if (of == ir::kNoValue || !times) return false;
    size_t missing = times->size() - type(of).sizes.size();
    Sizes sizes;
    ValueId seen = of;
    for (size_t d = 0; d < times->size(); ++d) {
      bool is_new = d < missing;
      if (!is_new && (*times)[d] == 1) {
        sizes.push_back(type(of).sizes[d - missing]);
        continue;
      }
      seen = unsqueeze(seen, sizes.size());
      sizes.push_back((*times)[d]);
      if (!is_new) sizes.push_back(type(of).sizes[d - missing]);
    }
    if (seen != of) seen = view(seen, "aten::expand", {sizes, false}, sizes, *expand_strides(type(seen), sizes));
    copy_into_result(seen);
    return true;
  }

  // Channels become rows and columns inside each pixel.
  bool shuffle() {
    if (node_.op != "aten::pixel_shuffle" || !makes_plain()) return false;
    ValueId of = operand(node_, 0);
    const auto* factor = constant<int64_t>(node_, 1);
    if (of == ir::kNoValue || !factor) return false;
    const Sizes& from = type(of).sizes;
    size_t rank = from.size(), batch = rank - 3;
    Sizes sizes(from.begin(), from.end() - 3), order(batch);
    for (int64_t size : {from[rank - 3] / (*factor * *factor), *factor, *factor, from[rank - 2], from[rank - 1]}) sizes.push_back(size);
    std::iota(order.begin(), order.end(), 0);
    for (size_t d : {0, 3, 1, 4, 2}) order.push_back(static_cast<int64_t>(batch + d));
    auto strides = view_strides(type(of), sizes);
    if (!strides) return false;
    ValueId split = view(of, "aten::view", {sizes}, sizes, *strides);
    Sizes sizes_after, strides_after;
    for (int64_t d : order) {
      sizes_after.push_back(sizes[static_cast<size_t>(d)]);
      strides_after.push_back((*strides)[static_cast<size_t>(d)]);
    }
    copy_into_result(view(split, "aten::permute", {order}, sizes_after, strides_after));
    return true;
  }

  bool split_gradients() {
    constexpr size_t kMask = 7;
    auto is_wanted = [](const ir::Result& result) { return result.ids[0] != ir::kNoValue; };
    if (node_.op != "aten::native_layer_norm_backward" || std::count_if(node_.results.begin(), node_.results.end(), is_wanted) < 2)
      return false;
    for (size_t r = 0; r < node_.results.size(); ++r) {
      if (!is_wanted(node_.results[r])) continue;
      ir::Node one = node_;
      std::vector<bool> mask(node_.results.size(), false);
      mask[r] = true;
      one.args[kMask] = ir::Attribute(mask);
      for (size_t other = 0; other < node_.results.size(); ++other)
        if (other != r) one.results[other].ids[0] = ir::kNoValue;
      out_.push_back(std::move(one));
    }
    return true;
  }

  ir::Graph& graph_;
  ir::Node node_;  // that is looked at
  std::vector<ir::Node> out_;
  size_t border_ = 0;
};

}  // namespace

size_t decompose(ir::Graph& graph) { return Decomposer(graph).run(); }

}  // namespace tenon::passes
