#include "passes/decompose.h"

#include <algorithm>
#include <numeric>

#include "ir/graph/group.h"
#include "ir/graph/node.h"
#include "ops/lowerable.h"
#include "ops/table.h"
#include "passes/layout.h"

namespace tenon::passes {
namespace {

using ir::TensorType;
using ir::ValueId;

class Decomposer {
 public:
  explicit Decomposer(ir::Graph& graph) : graph_(graph) {}

  size_t run() {
    size_t changes = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (i == graph_.backward_start) backward_start_ = out_.size();
      node_ = std::move(graph_.nodes[i]);
      if (stack() || repeat() || shuffle() || index_of_extreme() || split_gradients() || drop_empty_statistics()) ++changes;
      else out_.push_back(std::move(node_));
    }
    if (graph_.backward_start < graph_.nodes.size()) graph_.backward_start = backward_start_;
    else if (graph_.backward_start == graph_.nodes.size()) graph_.backward_start = out_.size();
    graph_.nodes = std::move(out_);
    return changes;
  }

 private:
  const TensorType& type(ValueId id) const { return graph_.values[id].type; }

  static bool is_contiguous(const TensorType& type) { return same(type.strides, ir::contiguous_strides(type.sizes)); }

  // Returns a node with the flags of the node that is replaced.
  ir::Node like(std::string op, std::vector<ir::Argument> args, ValueId result) const {
    ir::Node out = node_;
    out.op = std::move(op);
    out.args = std::move(args);
    out.results = {{false, {result}}};
    return out;
  }

  ValueId view(ValueId of, const std::string& op, std::vector<ir::Attribute> rest, Shape sizes, Shape strides) {
    TensorType seen{type(of).dtype, std::move(sizes), std::move(strides), type(of).offset};
    ValueId result = graph_.add_value(std::move(seen), of, graph_.values[of].requires_grad);
    std::vector<ir::Argument> args = {of};
    for (ir::Attribute& attribute : rest) args.emplace_back(std::move(attribute));
    out_.push_back(like(op, std::move(args), result));
    return result;
  }

  ValueId unsqueeze(ValueId of, size_t dim) {
    Shape sizes = type(of).sizes, strides = type(of).strides;
    ir::Size stride = dim < sizes.size() ? sizes[dim] * strides[dim] : 1;
    sizes.insert(sizes.begin() + static_cast<ptrdiff_t>(dim), 1);
    strides.insert(strides.begin() + static_cast<ptrdiff_t>(dim), stride);
    return view(of, "aten::unsqueeze", {static_cast<int64_t>(dim)}, std::move(sizes), std::move(strides));
  }

  // Emits a contiguous copy, viewed in the sizes of the result.
  void copy_into_result(ValueId of) {
    constexpr int64_t kContiguous = 0;  // Value of at::MemoryFormat::Contiguous.
    TensorType plain{type(of).dtype, type(of).sizes, ir::contiguous_strides(type(of).sizes)};
    ValueId result = only_result(node_), copy = graph_.add_value(plain, ir::kNoValue, graph_.values[result].requires_grad);
    out_.push_back(like("aten::clone", {of, ir::Attribute(kContiguous)}, copy));
    out_.push_back(like("aten::_unsafe_view", {copy, ir::Attribute(type(result).sizes)}, result));
    graph_.values[result].alias_of = copy;
  }

  bool makes_plain() const {
    return makes_one(graph_, node_) && is_plain(type(only_result(node_))) && ops::has_elements(type(only_result(node_)));
  }

  bool stack() {
    const auto* list = node_.op == "aten::stack" && makes_plain() ? std::get_if<ir::ValueList>(&node_.args[0]) : nullptr;
    auto dim = integer(node_, 1);
    if (!list || !dim) return false;
    // ATen may take the strides of operands with four or five dimensions for channels_last.
    const TensorType& made = type(only_result(node_));
    size_t rank = made.sizes.size();
    if (rank >= 4 && (made.sizes[rank - 1] == 1 || made.sizes[rank - 2] == 1)) return false;
    for (ValueId id : list->ids)
      if (id == ir::kNoValue || (rank >= 4 && !is_contiguous(type(id))) || type(id).dtype != made.dtype) return false;
    auto at = static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(rank) : *dim);
    ir::ValueList seen;
    for (ValueId id : list->ids) seen.ids.push_back(unsqueeze(id, at));
    out_.push_back(like("aten::cat", {seen, ir::Attribute(static_cast<int64_t>(at))}, only_result(node_)));
    return true;
  }

  // A [3, 4] tensor repeated (2, 1) times is a copy of its expansion to [2, 3, 4].
  bool repeat() {
    if (node_.op != "aten::repeat" || !makes_plain()) return false;
    ValueId of = operand(node_, 0);
    const auto* times = constant<Shape>(node_, 1);
    if (of == ir::kNoValue || !times) return false;
    size_t missing = times->size() - type(of).sizes.size();
    Shape sizes;
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

  // A pixel shuffle is a permutation: channels become rows and columns inside each pixel, or the reverse.
  bool shuffle() {
    bool is_back = node_.op == "aten::pixel_unshuffle";
    if ((!is_back && node_.op != "aten::pixel_shuffle") || !makes_plain()) return false;
    ValueId of = operand(node_, 0);
    auto given = integer(node_, 1);
    if (of == ir::kNoValue || !given) return false;
    const Shape& from = type(of).sizes;
    size_t rank = from.size(), batch = rank - 3;
    int64_t factor = *given;
    ir::Size channels = from[rank - 3], height = from[rank - 2], width = from[rank - 1];
    Shape split_sizes = {floor_divide(channels, factor * factor), factor, factor, height, width};
    std::vector<int64_t> permutation = {0, 3, 1, 4, 2}, order(batch);
    if (is_back) {
      split_sizes = {channels, floor_divide(height, factor), factor, floor_divide(width, factor), factor};
      permutation = {0, 2, 4, 1, 3};
    }
    Shape sizes(from.begin(), from.end() - 3);
    sizes.insert(sizes.end(), split_sizes.begin(), split_sizes.end());
    std::iota(order.begin(), order.end(), 0);
    for (int64_t d : permutation) order.push_back(static_cast<int64_t>(batch) + d);
    auto strides = view_strides(type(of), sizes);
    if (!strides) return false;
    ValueId split = view(of, "aten::view", {sizes}, sizes, *strides);
    Shape sizes_after, strides_after;
    for (int64_t d : order) {
      sizes_after.push_back(sizes[static_cast<size_t>(d)]);
      strides_after.push_back((*strides)[static_cast<size_t>(d)]);
    }
    copy_into_result(view(split, "aten::permute", {order}, sizes_after, strides_after));
    return true;
  }

  ValueId compute(std::string op, std::vector<ir::Argument> args, Shape sizes, ir::DType dtype) {
    Shape strides = ir::contiguous_strides(sizes);
    ValueId result = graph_.add_value({dtype, std::move(sizes), std::move(strides)});
    out_.push_back(like(std::move(op), std::move(args), result));
    return result;
  }

  // The result of `argmax` is the lowest index whose element is the maximum or NaN.
  bool index_of_extreme() {
    bool is_max = node_.op == "aten::argmax";
    if ((!is_max && node_.op != "aten::argmin") || !makes_plain()) return false;
    ValueId x = operand(node_, 0), result = only_result(node_);
    auto given = integer(node_, 1);
    const auto* keeps = constant<bool>(node_, 2);
    if (x == ir::kNoValue || !is_contiguous(type(x)) || !keeps || type(x).sizes.empty() || type(x).dtype == ir::DType::boolean)
      return false;
    if (!given && !std::holds_alternative<ir::None>(*constant(node_, 1))) return false;
    auto rank = given ? static_cast<int64_t>(type(x).sizes.size()) : 1;
    int64_t dim = given ? *given : 0;
    if (dim < 0) dim += rank;
    ir::Size count = given ? type(x).sizes[static_cast<size_t>(dim)] : numel(type(x));
    if (!count.is_number()) return false;  // The number becomes a constant of the kernel.
    if (!given && type(x).sizes.size() > 1) x = view(x, "aten::view", {Shape{count}}, {count}, {1});
    if (count == 1) return false;
    Shape all = type(x).sizes, kept = all, line(static_cast<size_t>(rank - dim), 1);
    line[0] = count;
    kept[static_cast<size_t>(dim)] = 1;
    ir::Attribute none = ir::None{}, yes = true, along = Shape{dim}, i64 = ops::scalar_type_id(ir::DType::i64);
    ValueId extreme = compute(is_max ? "aten::amax" : "aten::amin", {x, along, yes}, kept, type(x).dtype);
    ValueId is_it = compute("aten::eq.Tensor", {x, extreme}, all, ir::DType::boolean);
    if (ir::is_floating(type(x).dtype)) {
      ValueId is_nan = compute("aten::ne.Tensor", {x, x}, all, ir::DType::boolean);
      is_it = compute("aten::logical_or", {is_it, is_nan}, all, ir::DType::boolean);
    }
    ValueId indices = compute("aten::arange", {ir::Attribute(count), i64, none, none, none}, {count}, ir::DType::i64);
    indices = view(indices, "aten::view", {line}, line, ir::contiguous_strides(line));
    ir::Attribute past_end = ir::ScalarTensor{ir::DType::i64, count};
    ValueId candidates = compute("aten::where.self", {is_it, indices, past_end}, all, ir::DType::i64);
    if (given || type(result).sizes.empty()) {
      out_.push_back(like("aten::amin", {candidates, along, ir::Attribute(given && *keeps)}, result));
      return true;
    }
    ValueId least = compute("aten::amin", {candidates, along, ir::Attribute(false)}, {}, ir::DType::i64);
    out_.push_back(like("aten::_unsafe_view", {least, ir::Attribute(type(result).sizes)}, result));
    graph_.values[result].alias_of = least;
    return true;
  }

  // A batch norm with known statistics returns two empty tensors besides its result.
  bool drop_empty_statistics() {
    if (node_.op != "aten::native_batch_norm" || ir::plain_text(node_.args[5]) != "false") return false;
    bool changed = false;
    for (size_t r : {1, 2}) {
      ValueId id = node_.results[r].ids[0];
      if (id == ir::kNoValue || !ir::same(type(id).sizes, Shape{0})) continue;
      ir::Attribute none = ir::None{}, dtype = ops::scalar_type_id(type(id).dtype);
      out_.push_back(like("aten::zeros", {ir::Attribute(Shape{0}), dtype, none, none, none}, id));
      node_.results[r].ids[0] = ir::kNoValue;
      changed = true;
    }
    if (changed) out_.push_back(std::move(node_));
    return changed;
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
  ir::Node node_;  // The current node.
  std::vector<ir::Node> out_;
  size_t backward_start_ = 0;
};

}  // namespace

size_t decompose(ir::Graph& graph) { return Decomposer(graph).run(); }

}  // namespace tenon::passes
