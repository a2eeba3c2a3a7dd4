#include "ops/strided_operands.h"

#include <algorithm>

#include "ir/graph/node.h"
#include "ops/lowerable.h"

namespace tenon::ops {
namespace {

using ir::ValueId;

const ValueId* tensor_at(const ir::Node& node, int argument) {
  if (static_cast<size_t>(argument) >= node.args.size()) return nullptr;
  const auto* id = std::get_if<ValueId>(&node.args[argument]);
  return id && *id != ir::kNoValue ? id : nullptr;
}

ir::Size stride_at(const ir::TensorType& type, size_t dim) { return type.sizes[dim] == 1 ? 0 : type.strides[dim]; }

// Strides of `$1@1`: the tensor's dimensions are aligned from the given one on.
std::optional<ir::StridedOperand> strided_at(const ir::Graph& graph, const ir::Node& node, const Expression& e, const ir::SizeList& sizes) {
  ValueId id = *tensor_at(node, e.argument);
  const ir::TensorType& type = graph.values[id].type;
  std::optional<size_t> first = resolve(*e.dim, node, sizes.size());
  if (!first || *first + type.sizes.size() > sizes.size()) return std::nullopt;
  ir::StridedOperand out{id, ir::SizeList(sizes.size(), 0)};
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (!same(type.sizes[d], sizes[*first + d])) return std::nullopt;
    out.strides[*first + d] = stride_at(type, d);
  }
  return out;
}

// Strides of `$0[1: $1]`. If there is an index for every element, the other dimensions keep their
// positions; otherwise they are the dimensions that the index does not have.
std::optional<ir::StridedOperand> strided_indexed(const ir::Graph& graph, const ir::Node& node, const Expression& e,
                                                  const ir::SizeList& sizes) {
  ValueId id = *tensor_at(node, e.argument);
  const ir::TensorType& type = graph.values[id].type;
  const ValueId* index = tensor_at(node, e.operands[0].argument);
  std::optional<size_t> indexed = resolve(*e.dim, node, type.sizes.size());
  if (!index || !indexed || !ir::is_integer(graph.values[*index].type.dtype)) return std::nullopt;
  if (e.exempt >= 0 && !ir::integer(node, static_cast<size_t>(e.exempt))) return std::nullopt;
  size_t index_rank = graph.values[*index].type.sizes.size(), first = 0;
  bool is_for_each = index_rank == sizes.size();
  if (is_for_each && !same(graph.values[*index].type.sizes, sizes)) return std::nullopt;
  if (!is_for_each) {
    if (!e.operands[0].dim || index_rank + type.sizes.size() - 1 != sizes.size()) return std::nullopt;
    std::optional<size_t> at = resolve(*e.operands[0].dim, node, sizes.size());
    if (!at) return std::nullopt;
    first = *at;
  }
  ir::StridedOperand out{id, ir::SizeList(sizes.size(), 0)};
  size_t next = 0;
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (d == *indexed) continue;
    if (!is_for_each && next == first) next += index_rank;
    size_t at = is_for_each ? d : next++;
    if (at >= sizes.size() || (is_for_each ? type.sizes[d] < sizes[at] : !same(type.sizes[d], sizes[at]))) return std::nullopt;
    out.strides[at] = stride_at(type, d);
  }
  return out;
}

}  // namespace

std::optional<size_t> resolve(const Expression::DimRef& dim, const ir::Node& node, size_t rank) {
  int64_t index = dim.value;
  if (dim.is_argument) {
    auto given = ir::integer(node, static_cast<size_t>(dim.value));
    if (!given) return std::nullopt;
    index = *given;
  }
  if (index < 0) index += static_cast<int64_t>(rank);
  if (index < 0 || index >= static_cast<int64_t>(rank)) return std::nullopt;
  return static_cast<size_t>(index);
}

std::optional<std::vector<ir::StridedOperand>> strided_operands_of(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry) {
  std::vector<ir::StridedOperand> out;
  const ir::SizeList& sizes = sizes_of(graph, node, entry);
  for (const Expression& e : entry.strided_arguments) {
    if (!tensor_at(node, e.argument)) continue;
    auto strided = e.kind == Expression::Kind::indexed ? strided_indexed(graph, node, e, sizes) : strided_at(graph, node, e, sizes);
    if (!strided) return std::nullopt;
    // An operand that is used twice must have the same strides in both uses.
    auto known = std::find_if(out.begin(), out.end(), [&](const ir::StridedOperand& p) { return p.id == strided->id; });
    if (known == out.end()) out.push_back(std::move(*strided));
    else if (!same(known->strides, strided->strides)) return std::nullopt;
  }
  return out;
}

std::vector<ir::IndexRange> index_ranges_of(const ir::Graph& graph, const ir::Node& node, const OpEntry& entry) {
  std::vector<ir::IndexRange> out;
  for (const Expression& e : entry.strided_arguments) {
    const ValueId* id = tensor_at(node, e.argument);
    if (e.kind != Expression::Kind::indexed || !id) continue;
    const ir::TensorType& type = graph.values[*id].type;
    ir::IndexRange range{*tensor_at(node, e.operands[0].argument), type.sizes[*resolve(*e.dim, node, type.sizes.size())]};
    if (e.exempt >= 0) range.exempt = ir::integer(node, static_cast<size_t>(e.exempt));
    out.push_back(range);
  }
  return out;
}

}  // namespace tenon::ops
