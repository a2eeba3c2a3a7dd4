#include "ops/pieces.h"

#include <algorithm>

#include "ir/graph/node.h"
#include "ops/lowerable.h"

namespace tenon::ops {
namespace {

using ir::ValueId;

bool has_elements(const ir::TensorType& type) { return std::count(type.sizes.begin(), type.sizes.end(), 0) == 0; }

std::optional<Pieces> catenated(const ir::Graph& graph, const ir::Node& node, const ir::TensorType& type) {
  constexpr size_t kMost = 4;  // each is one more masked load
  const auto* list = std::get_if<ir::ValueList>(&node.args[0]);
  const auto* dim = ir::constant<int64_t>(node, 1);
  if (!list || !dim || list->ids.size() < 2 || list->ids.size() > kMost) return std::nullopt;
  Pieces out{static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(type.sizes.size()) : *dim)};
  for (ValueId id : list->ids) {
    if (id == ir::kNoValue || graph.values[id].type.dtype != type.dtype || graph.values[id].type.sizes.size() != type.sizes.size())
      return std::nullopt;
    if (!has_elements(graph.values[id].type)) return std::nullopt;
    out.pieces.push_back({id, (out.pieces.empty() ? 0 : out.pieces.back().end) + graph.values[id].type.sizes[out.dim]});
  }
  return out;
}

// The gradient of a slice or of one element, with zeros around it.
std::optional<Pieces> surrounded(const ir::Graph& graph, const ir::Node& node, const ir::TensorType& type) {
  bool is_slice = node.op == "aten::slice_backward";
  const auto* id = std::get_if<ValueId>(&node.args[0]);
  const auto *dim = ir::constant<int64_t>(node, 2), *start = ir::constant<int64_t>(node, 3);
  if (!id || *id == ir::kNoValue || !dim || !start) return std::nullopt;
  if (is_slice && ir::plain_text(node.args[5]) != "1") return std::nullopt;
  const ir::TensorType& grad = graph.values[*id].type;
  if (!has_elements(grad) || grad.dtype != type.dtype) return std::nullopt;
  auto rank = static_cast<int64_t>(type.sizes.size());
  Pieces out{static_cast<size_t>(*dim < 0 ? *dim + rank : *dim)};
  int64_t extent = type.sizes[out.dim], begin = *start < 0 ? *start + extent : *start;
  begin = std::clamp<int64_t>(begin, 0, extent);
  int64_t end = begin + (is_slice ? grad.sizes[out.dim] : 1);
  if (end > extent) return std::nullopt;
  if (begin > 0) out.pieces.push_back({ir::kNoValue, begin});
  out.pieces.push_back({*id, end});
  if (end < extent) out.pieces.push_back({ir::kNoValue, extent});
  if (is_slice) return out;
  out.placed = ir::Placed{*id, std::vector<int64_t>(type.sizes.size(), 0)};
  for (size_t d = 0, from = 0; d < type.sizes.size(); ++d) {
    if (d == out.dim) continue;
    out.placed->strides[d] = grad.sizes[from] == 1 ? 0 : grad.strides[from];
    ++from;
  }
  return out;
}

// One number for both dimensions, or two; none is what the other list says.
std::optional<std::array<int64_t, 2>> pair_of(const ir::Node& node, size_t index) {
  const auto* list = ir::constant<std::vector<int64_t>>(node, index);
  if (!list || list->empty()) return std::nullopt;
  return std::array{(*list)[0], list->back()};
}

}  // namespace

std::optional<Pieces> pieces_of(const ir::Graph& graph, const ir::Node& node) {
  bool is_cat = node.op == "aten::cat" && node.args.size() == 2;
  if (!is_cat && node.op != "aten::slice_backward" && node.op != "aten::select_backward") return std::nullopt;
  ValueId result = results_of(node)[0];
  if (result == ir::kNoValue) return std::nullopt;
  const ir::TensorType& type = graph.values[result].type;
  if (!has_registers(type.dtype) || !has_elements(type)) return std::nullopt;
  return is_cat ? catenated(graph, node, type) : surrounded(graph, node, type);
}

std::optional<Pool> pool_of(const ir::Graph& graph, const ir::Node& node) {
  constexpr int64_t kMost = 16;  // elements of a window: each is a load
  bool is_max = node.op == "aten::max_pool2d_with_indices";
  if (!is_max && node.op != "aten::avg_pool2d") return std::nullopt;
  std::vector<ValueId> results = results_of(node);
  if (results[0] == ir::kNoValue || (is_max && results[1] != ir::kNoValue)) return std::nullopt;
  const ir::TensorType& type = graph.values[results[0]].type;
  ValueId id = std::get<ValueId>(node.args[0]);
  const ir::TensorType& from = graph.values[id].type;
  size_t rank = type.sizes.size();
  if (!ir::is_floating(type.dtype) || !has_elements(type) || rank < 3) return std::nullopt;
  auto size = pair_of(node, 1), padding = pair_of(node, 3);
  auto stride = pair_of(node, 2), dilation = is_max ? pair_of(node, 4) : std::array<int64_t, 2>{1, 1};
  if (!size || !padding || !dilation || (*size)[0] * (*size)[1] > kMost) return std::nullopt;
  if (!stride) stride = size;
  // Windows that hang over the end by rounding up have a size of their own.
  bool rounds_up = ir::plain_text(node.args[is_max ? 5 : 4]) != "false";
  if (rounds_up && !is_max) return std::nullopt;
  Pool out{.source = {id, from.strides}, .is_mean = !is_max};
  if (!is_max) {
    out.counts_padding = ir::plain_text(node.args[5]) == "true";
    if (const auto* divisor = ir::constant<int64_t>(node, 6)) out.divisor = *divisor;
  }
  for (size_t d = 0; d < rank; ++d)
    if (from.sizes[d] == 1) out.source.strides[d] = 0;
  for (size_t w = 0; w < 2; ++w) {
    size_t d = rank - 2 + w;
    out.windows[w] = {(*size)[w], (*stride)[w], (*padding)[w], (*dilation)[w], from.sizes[d], from.strides[d]};
    out.source.strides[d] = type.sizes[d] == 1 ? 0 : from.strides[d] * (*stride)[w];
  }
  return out;
}

}  // namespace tenon::ops
