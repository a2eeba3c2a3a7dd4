#include "ops/concat_pool.h"

#include <algorithm>

#include "ir/graph/node.h"
#include "ops/lowerable.h"

namespace tenon::ops {
namespace {

using ir::ValueId;

std::optional<Concatenation> from_cat(const ir::Graph& graph, const ir::Node& node, const ir::TensorType& type) {
  // Each operand costs one masked load per element of the result. Estimate, not measured.
  constexpr size_t kMaxConcatOperands = 4;
  const auto* list = std::get_if<ir::ValueList>(&node.args[0]);
  auto dim = ir::integer(node, 1);
  if (!list || !dim || list->ids.size() < 2 || list->ids.size() > kMaxConcatOperands) return std::nullopt;
  Concatenation out{static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(type.sizes.size()) : *dim)};
  for (ValueId id : list->ids) {
    if (id == ir::kNoValue) return std::nullopt;
    if (!has_elements(graph.values[id].type)) continue;
    if (graph.values[id].type.dtype != type.dtype || graph.values[id].type.sizes.size() != type.sizes.size()) return std::nullopt;
    const ir::Size& extent = graph.values[id].type.sizes[out.dim];
    if (!extent.is_number()) return std::nullopt;
    out.segments.push_back({id, (out.segments.empty() ? 0 : out.segments.back().end) + extent.number()});
  }
  return out;
}

// Lowers the gradient of a slice or select: the gradient with zeros around it.
std::optional<Concatenation> from_slice_gradient(const ir::Graph& graph, const ir::Node& node, const ir::TensorType& type) {
  bool is_slice = node.op == "aten::slice_backward";
  const auto* id = std::get_if<ValueId>(&node.args[0]);
  auto dim = ir::integer(node, 2), start = ir::integer(node, 3);
  if (!id || *id == ir::kNoValue || !dim || !start) return std::nullopt;
  if (is_slice && ir::plain_text(node.args[5]) != "1") return std::nullopt;
  const ir::TensorType& grad = graph.values[*id].type;
  if (!has_elements(grad) || grad.dtype != type.dtype) return std::nullopt;
  auto rank = static_cast<int64_t>(type.sizes.size());
  Concatenation out{static_cast<size_t>(*dim < 0 ? *dim + rank : *dim)};
  ir::Size length = is_slice ? grad.sizes[out.dim] : 1;
  if (!type.sizes[out.dim].is_number() || !length.is_number()) return std::nullopt;
  int64_t extent = type.sizes[out.dim].number(), begin = *start < 0 ? *start + extent : *start;
  begin = std::clamp<int64_t>(begin, 0, extent);
  int64_t end = begin + length.number();
  if (end > extent) return std::nullopt;
  if (begin > 0) out.segments.push_back({ir::kNoValue, begin});
  out.segments.push_back({*id, end});
  if (end < extent) out.segments.push_back({ir::kNoValue, extent});
  if (is_slice) return out;
  out.strided = ir::StridedOperand{*id, ir::SizeList(type.sizes.size(), 0)};
  for (size_t d = 0, from = 0; d < type.sizes.size(); ++d) {
    if (d == out.dim) continue;
    out.strided->strides[d] = grad.sizes[from] == 1 ? 0 : grad.strides[from];
    ++from;
  }
  return out;
}

// Returns a list argument of one or two integers as two integers; nothing if it is empty.
std::optional<std::array<int64_t, 2>> pair_of(const ir::Node& node, size_t index) {
  auto list = ir::integers(node, index);
  if (!list || list->empty()) return std::nullopt;
  return std::array{(*list)[0], list->back()};
}

bool set_windows(const ir::Node& node, Pooling& out) {
  auto size = pair_of(node, 1), stride = pair_of(node, 2), padding = pair_of(node, 3);
  auto dilation = out.is_mean ? std::array<int64_t, 2>{1, 1} : pair_of(node, 4);
  if (!size || !padding || !dilation) return false;
  if (!stride) {
    const auto* listed = ir::constant<ir::SizeList>(node, 2);
    if (listed && !listed->empty()) return false;  // A stride is symbolic.
    stride = size;
  }
  // Windows that extend past the end because of ceil_mode have another divisor.
  bool rounds_up = ir::plain_text(node.args[out.is_mean ? 4 : 5]) != "false";
  if (rounds_up && out.is_mean) return false;
  if (out.is_mean) {
    out.counts_padding = ir::plain_text(node.args[5]) == "true";
    out.divisor = ir::integer(node, 6);
    if (!out.divisor && ir::constant<ir::Size>(node, 6)) return false;
  }
  for (size_t w = 0; w < 2; ++w) {
    Pooling::Window& window = out.windows[w];
    window.size = (*size)[w], window.stride = (*stride)[w], window.padding = (*padding)[w], window.dilation = (*dilation)[w];
  }
  return true;
}

// Returns whether each element of the result was upsampled to exactly one window.
bool is_multiple(const ir::Node& node, const Pooling& pooling) {
  for (size_t w = 0; w < 2; ++w) {
    const Pooling::Window& window = pooling.windows[w];
    const ir::Attribute* given = ir::constant(node, 3 + w);
    const auto* factor = given ? std::get_if<double>(given) : nullptr;
    if (window.is_uneven || !given || (!factor && !std::holds_alternative<ir::None>(*given))) return false;
    if (factor && *factor > 0 && *factor != static_cast<double>(window.stride)) return false;
  }
  return true;
}

// Windows of adaptive pooling: they cover the source and overlap by one element if its size is no multiple of their count.
void set_evenly(Pooling& out) {
  for (Pooling::Window& window : out.windows) {
    window.stride = window.extent / window.count;
    window.is_uneven = window.extent % window.count != 0;
    for (int64_t i = 0; i < window.count; ++i) {
      int64_t begin = i * window.extent / window.count, end = ((i + 1) * window.extent + window.count - 1) / window.count;
      window.size = std::max(window.size, end - begin);
    }
  }
}

}  // namespace

std::optional<Concatenation> concatenation_of(const ir::Graph& graph, const ir::Node& node) {
  bool is_cat = node.op == "aten::cat" && node.args.size() == 2;
  if (!is_cat && node.op != "aten::slice_backward" && node.op != "aten::select_backward") return std::nullopt;
  ValueId result = results_of(node)[0];
  if (result == ir::kNoValue) return std::nullopt;
  const ir::TensorType& type = graph.values[result].type;
  if (!has_registers(type.dtype) || !has_elements(type)) return std::nullopt;
  return is_cat ? from_cat(graph, node, type) : from_slice_gradient(graph, node, type);
}

std::optional<Pooling> pooling_of(const ir::Graph& graph, const ir::Node& node) {
  // Each element of a window costs one load per element of the result. Estimate, not measured.
  constexpr int64_t kMaxWindowElements = 16;
  bool is_adaptive = node.op == "aten::adaptive_max_pool2d" || node.op == "aten::_adaptive_avg_pool2d";
  bool is_max = node.op == "aten::adaptive_max_pool2d" || node.op == "aten::max_pool2d_with_indices";
  bool is_upsample_gradient = node.op == "aten::upsample_nearest2d_backward";
  if (!is_max && !is_adaptive && !is_upsample_gradient && node.op != "aten::avg_pool2d") return std::nullopt;
  std::vector<ValueId> results = results_of(node);
  if (results[0] == ir::kNoValue) return std::nullopt;
  const ir::TensorType& type = graph.values[results[0]].type;
  ValueId id = std::get<ValueId>(node.args[0]);
  const ir::TensorType& from = graph.values[id].type;
  size_t rank = type.sizes.size();
  if (!ir::is_floating(type.dtype) || !has_elements(type) || rank < 3) return std::nullopt;
  Pooling out{.source = {id, from.strides}, .is_mean = !is_max};
  for (size_t w = 0; w < 2; ++w) {
    const ir::Size &extent = from.sizes[rank - 2 + w], &stride = from.strides[rank - 2 + w], &count = type.sizes[rank - 2 + w];
    if (!extent.is_number() || !stride.is_number() || !count.is_number()) return std::nullopt;
    out.windows[w].extent = extent.number();
    out.windows[w].step = extent == 1 ? 0 : stride.number();
    out.windows[w].count = count.number();
  }
  if (is_adaptive || is_upsample_gradient) set_evenly(out);
  else if (!set_windows(node, out)) return std::nullopt;
  if (is_upsample_gradient) {
    if (!is_multiple(node, out)) return std::nullopt;
    out.divisor = 1;
  }
  if (out.windows[0].size * out.windows[1].size > kMaxWindowElements) return std::nullopt;
  // The initial argmax of a window that is both padded and dilated would need a search.
  bool has_indices = is_max && results[1] != ir::kNoValue;
  for (const Pooling::Window& window : out.windows)
    if (has_indices && window.dilation != 1 && window.padding != 0) return std::nullopt;
  for (size_t d = 0; d < rank; ++d)
    if (from.sizes[d] == 1) out.source.strides[d] = 0;
  for (size_t w = 0; w < 2; ++w) {
    bool has_stride = type.sizes[rank - 2 + w] > 1 && !out.windows[w].is_uneven;
    out.source.strides[rank - 2 + w] = has_stride ? out.windows[w].step * out.windows[w].stride : 0;
  }
  return out;
}

}  // namespace tenon::ops
