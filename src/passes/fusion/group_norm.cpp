#include "passes/fusion/group_norm.h"

#include "ir/graph/node.h"
#include "ops/table.h"
#include "passes/fusion/call_builder.h"
#include "passes/layout.h"

namespace tenon::passes {
namespace {

using ir::DType;
using ir::kNoValue;
using ir::ValueId;

class Rewriter {
 public:
  Rewriter(const ir::Graph& graph, const ir::Group& group, const ir::Node& norm, int64_t groups) : call_(graph, group), norm_(norm) {
    const Shape& sizes = group.sizes;
    ir::Size length = 1;  // Number of elements per channel.
    for (size_t d = 2; d < sizes.size(); ++d) length *= sizes[d];
    rows_ = {sizes[0], groups, floor_divide(sizes[1] * length, groups)}, ones_ = {sizes[0], groups, 1};
    channels_ = {sizes[0], sizes[1], length};
    wide_ = call_.type(operand(norm, 0)).dtype == DType::f64 ? DType::f64 : DType::f32;
  }

  std::shared_ptr<const ir::Graph> forward() {
    ValueId x = seen(operand(norm_, 0), rows_);
    ValueId out = call_.add("aten::native_layer_norm", {x, ir::Attribute(Shape{rows_[2]}), kNone, kNone, norm_.args[7]}, rows_, wide_);
    ValueId mean = call_.add_result(ones_, wide_), deviation = call_.add_result(ones_, wide_);
    out = seen(out, channels_);
    if (ValueId weight = operand(norm_, 1); weight != kNoValue) out = multiply(out, column(weight));
    if (ValueId bias = operand(norm_, 2); bias != kNoValue)
      out = call_.add("aten::add.Tensor", {out, column(bias), kOne}, channels_, wide_);
    return finish({out, mean, deviation});
  }

  std::shared_ptr<const ir::Graph> backward() {
    ValueId grad = seen(operand(norm_, 0), channels_), x = seen(operand(norm_, 1), rows_), weight = operand(norm_, 4);
    ValueId mean = seen(operand(norm_, 2), ones_), deviation = seen(operand(norm_, 3), ones_);
    std::vector<ValueId> made(3, kNoValue);
    if (is_wanted(0)) {
      ValueId scaled = seen(weight == kNoValue ? grad : multiply(grad, column(weight)), rows_);
      ir::Attribute first = std::vector<bool>{true, false, false};
      made[0] = call_.add("aten::native_layer_norm_backward",
                          {scaled, x, ir::Attribute(Shape{rows_[2]}), mean, deviation, kNone, kNone, first}, rows_, wide_);
      call_.add_nothing();
      call_.add_nothing();
    }
    if (is_wanted(1)) {
      ValueId centred = call_.add("aten::sub.Tensor", {x, mean, kOne}, rows_, wide_);
      ValueId normed = call_.add("aten::mul.Tensor", {centred, deviation}, rows_, wide_);
      made[1] = per_channel(multiply(grad, seen(normed, channels_)));
    }
    if (is_wanted(2)) made[2] = per_channel(grad);
    return finish(made);
  }

 private:
  const ir::Attribute kNone = ir::None{}, kOne = int64_t{1};

  bool is_wanted(size_t result) const { return norm_.results[result].ids[0] != kNoValue; }

  std::shared_ptr<const ir::Graph> finish(const std::vector<ValueId>& made) {
    std::vector<ValueId> out;
    for (size_t r = 0; r < made.size(); ++r)
      if (is_wanted(r))
        out.push_back(seen(as(made[r], call_.type(norm_.results[r].ids[0]).dtype), call_.type(norm_.results[r].ids[0]).sizes, false));
    return call_.finish(std::move(out));
  }

  ValueId as(ValueId id, DType dtype) {
    if (call_.type(id).dtype == dtype) return id;
    ir::Attribute to = ops::scalar_type_id(dtype), no = false;
    return call_.add("aten::_to_copy", {id, to, kNone, kNone, kNone, no, kNone}, Shape(call_.type(id).sizes), dtype);
  }

  // Views a value in other sizes and, if `widens`, converts it to the compute type.
  ValueId seen(ValueId id, Shape sizes, bool widens = true) {
    ValueId out = call_.add("aten::view", {id, ir::Attribute(sizes)}, sizes, call_.type(id).dtype);
    return widens ? as(out, wide_) : out;
  }

  // Views a per-channel vector so that it broadcasts over a channel's elements.
  ValueId column(ValueId id) { return seen(id, {call_.type(id).sizes[0], 1}); }

  ValueId multiply(ValueId a, ValueId b) { return call_.add("aten::mul.Tensor", {a, b}, channels_, wide_); }

  ValueId per_channel(ValueId id) {
    ir::Attribute others = Shape{0, 2}, no = false;
    return call_.add("aten::sum.dim_IntList", {id, others, no, kNone}, {channels_[1]}, wide_);
  }

  CallBuilder call_;
  const ir::Node& norm_;
  Shape rows_, ones_, channels_;
  DType wide_ = DType::f32;
};

bool is_contiguous(const ir::Graph& graph, ValueId id) {
  return id == kNoValue || same(graph.values[id].type.strides, ir::contiguous_strides(graph.values[id].type.sizes));
}

}  // namespace

std::vector<ir::Group> find_group_norms(const ir::Graph& graph) {
  std::vector<ir::Group> out;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const ir::Node& norm = graph.nodes[i];
    bool is_forward = norm.op == "aten::native_group_norm";
    if (!is_forward && norm.op != "aten::native_group_norm_backward") continue;
    auto groups = integer(norm, is_forward ? 6 : 8);
    ir::Group group{.nodes = {i}, .sizes = graph.values[operand(norm, 0)].type.sizes};
    ir::Size length = 1;  // Number of elements per sample.
    for (size_t d = 1; d < group.sizes.size(); ++d) length *= group.sizes[d];
    bool fits = groups && group.sizes[0] > 0 && length > *groups && same(floor_divide(length, *groups) * *groups, length);
    for (size_t a = 0; a < (is_forward ? 3 : 5); ++a) {
      fits &= is_contiguous(graph, operand(norm, a));
      if (operand(norm, a) != kNoValue) group.inputs.push_back(operand(norm, a));
    }
    for (const ir::Result& result : norm.results) {
      fits &= is_contiguous(graph, result.ids[0]);
      if (result.ids[0] != kNoValue) group.outputs.push_back(result.ids[0]);
    }
    if (!fits || group.outputs.empty()) continue;
    Rewriter rewriter(graph, group, norm, *groups);
    group.computation = ir::Rewrite{is_forward ? rewriter.forward() : rewriter.backward()};
    out.push_back(std::move(group));
  }
  return out;
}

}  // namespace tenon::passes
