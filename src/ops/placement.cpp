#include "ops/placement.h"

#include <algorithm>

#include "ops/lowerable.h"

namespace tenon::ops {
namespace {

using ir::ValueId;

const ValueId* tensor_at(const ir::Node& node, int argument) {
  if (static_cast<size_t>(argument) >= node.args.size()) return nullptr;
  const auto* id = std::get_if<ValueId>(&node.args[argument]);
  return id && *id != ir::kNoValue ? id : nullptr;
}

int64_t stride_at(const ir::TensorType& type, size_t dim) { return type.sizes[dim] == 1 ? 0 : type.strides[dim]; }

// `$1@1`: its dimensions, from this one on.
std::optional<ir::Placed> place_at(const ir::Graph& graph, const ir::Node& node, const Expression& e, const std::vector<int64_t>& sizes) {
  ValueId id = *tensor_at(node, e.argument);
  const ir::TensorType& type = graph.values[id].type;
  std::optional<size_t> first = resolve(*e.dim, node, sizes.size());
  if (!first || *first + type.sizes.size() > sizes.size()) return std::nullopt;
  ir::Placed out{id, std::vector<int64_t>(sizes.size(), 0)};
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (type.sizes[d] != sizes[*first + d]) return std::nullopt;
    out.strides[*first + d] = stride_at(type, d);
  }
  return out;
}

// `$0[1: $1]`: an index for every element, and the other dimensions have their own numbers; or else
// they are those that the index has not.
std::optional<ir::Placed> place_indexed(const ir::Graph& graph, const ir::Node& node, const Expression& e,
                                        const std::vector<int64_t>& sizes) {
  ValueId id = *tensor_at(node, e.argument);
  const ir::TensorType& type = graph.values[id].type;
  const ValueId* index = tensor_at(node, e.operands[0].argument);
  std::optional<size_t> indexed = resolve(*e.dim, node, type.sizes.size());
  if (!index || !indexed || !ir::is_integer(graph.values[*index].type.dtype)) return std::nullopt;
  size_t index_rank = graph.values[*index].type.sizes.size(), first = 0;
  bool is_for_each = index_rank == sizes.size();
  if (is_for_each && graph.values[*index].type.sizes != sizes) return std::nullopt;
  if (!is_for_each) {
    if (!e.operands[0].dim || index_rank + type.sizes.size() - 1 != sizes.size()) return std::nullopt;
    std::optional<size_t> at = resolve(*e.operands[0].dim, node, sizes.size());
    if (!at) return std::nullopt;
    first = *at;
  }
  ir::Placed out{id, std::vector<int64_t>(sizes.size(), 0)};
  size_t next = 0;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (d == *indexed) continue;
    if (!is_for_each && next == first) next += index_rank;
    size_t at = is_for_each ? d : next++;
    if (at >= sizes.size() || (is_for_each ? type.sizes[d] < sizes[at] : type.sizes[d] != sizes[at])) return std::nullopt;
    out.strides[at] = stride_at(type, d);
  }
  return out;
}

}  // namespace

std::optional<size_t> resolve(const Expression::Dim& dim, const ir::Node& node, size_t rank) {
  int64_t number = dim.number;
  if (dim.is_argument) {
    const auto* attribute = std::get_if<ir::Attribute>(&node.args[dim.number]);
    const auto* given = attribute ? std::get_if<int64_t>(attribute) : nullptr;
    if (!given) return std::nullopt;
    number = *given;
  }
  if (number < 0) number += static_cast<int64_t>(rank);
  if (number < 0 || number >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(number);
}

std::optional<std::vector<ir::Placed>> placed_of(const ir::Graph& graph, const ir::Node& node, const Row& row) {
  std::vector<ir::Placed> out;
  const std::vector<int64_t>& sizes = sizes_of(graph, node, row);
  for (const Expression& e : row.placed) {
    if (!tensor_at(node, e.argument)) continue;
    auto placed = e.kind == Expression::Kind::indexed ? place_indexed(graph, node, e, sizes) : place_at(graph, node, e, sizes);
    if (!placed) return std::nullopt;
    // One operand, one place.
    auto twin = std::find_if(out.begin(), out.end(), [&](const ir::Placed& p) { return p.id == placed->id; });
    if (twin == out.end()) out.push_back(std::move(*placed));
    else if (twin->strides != placed->strides) return std::nullopt;
  }
  return out;
}

std::vector<ir::Range> ranges_of(const ir::Graph& graph, const ir::Node& node, const Row& row) {
  std::vector<ir::Range> out;
  for (const Expression& e : row.placed) {
    const ValueId* id = tensor_at(node, e.argument);
    if (e.kind != Expression::Kind::indexed || !id) continue;
    const ir::TensorType& type = graph.values[*id].type;
    ir::Range range{*tensor_at(node, e.operands[0].argument), type.sizes[*resolve(*e.dim, node, type.sizes.size())]};
    if (e.exempt >= 0) range.exempt = std::get<int64_t>(std::get<ir::Attribute>(node.args[e.exempt]));
    out.push_back(range);
  }
  return out;
}

}  // namespace tenon::ops
