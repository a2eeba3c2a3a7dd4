#include "ops/moves.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ir/graph/node.h"
#include "ops/lowerable.h"

namespace tenon::ops {
namespace {

using Kind = Move::Kind;
using List = std::vector<int64_t>;

// Name, kind, and for those that resize the first argument of their scales.
struct Spelling {
  std::string_view op;
  Kind kind;
  size_t scales = 0;
};
constexpr Spelling kSpellings[] = {
    {"aten::flip", Kind::flip},
    {"aten::roll", Kind::roll},
    {"aten::reflection_pad1d", Kind::reflect},
    {"aten::reflection_pad2d", Kind::reflect},
    {"aten::reflection_pad3d", Kind::reflect},
    {"aten::replication_pad1d", Kind::clamp},
    {"aten::replication_pad2d", Kind::clamp},
    {"aten::replication_pad3d", Kind::clamp},
    {"aten::constant_pad_nd", Kind::pad},
    {"aten::upsample_nearest1d", Kind::nearest, 2},
    {"aten::upsample_nearest2d", Kind::nearest, 2},
    {"aten::upsample_nearest3d", Kind::nearest, 2},
    {"aten::upsample_linear1d", Kind::linear, 3},
    {"aten::upsample_bilinear2d", Kind::linear, 3},
};

bool add_listed(const ir::Node& node, const ir::TensorType& from, Move& out) {
  auto rank = static_cast<int64_t>(from.sizes.size());
  bool rolls = out.kind == Kind::roll;
  const auto *shifts = rolls ? ir::constant<List>(node, 1) : nullptr, *dims = ir::constant<List>(node, rolls ? 2 : 1);
  if (!dims || (rolls && (!shifts || shifts->size() != dims->size()))) return false;
  for (size_t i = 0; i < dims->size(); ++i) {
    auto dim = static_cast<size_t>((*dims)[i] < 0 ? (*dims)[i] + rank : (*dims)[i]);
    if (std::any_of(out.along.begin(), out.along.end(), [&](const Move::Along& a) { return a.dim == dim; })) return false;
    int64_t shift = rolls ? (*shifts)[i] % from.sizes[dim] : 0;
    out.along.push_back({.dim = dim, .shift = shift < 0 ? shift + from.sizes[dim] : shift});
  }
  return true;
}

// Before and behind, the last dimension first.
bool add_padded(const ir::Node& node, const ir::TensorType& from, Move& out) {
  // A number that may be another one at each run is a floating-point number.
  if (out.kind == Kind::pad && !ir::is_floating(from.dtype) && ir::scalar_in(node.args[2]) != ir::kNoScalar) return false;
  const auto* padding = ir::constant<List>(node, 1);
  if (!padding || padding->size() > 2 * from.sizes.size()) return false;
  for (size_t i = 0; 2 * i + 1 < padding->size(); ++i)
    if ((*padding)[2 * i] != 0 || (*padding)[2 * i + 1] != 0)
      out.along.push_back({.dim = from.sizes.size() - 1 - i, .shift = (*padding)[2 * i]});
  return true;
}

// ATen finds the nearest element in f32 in some of its loops and in the operand's type in others.
bool is_clear(int64_t count, double scale) {
  for (int64_t i = 0; i < count; ++i)
    if (std::floor(static_cast<float>(i) * static_cast<float>(scale)) != std::floor(static_cast<double>(i) * scale)) return false;
  return true;
}

bool add_resized(const ir::Node& node, const ir::TensorType& from, const ir::TensorType& to, size_t scales, Move& out) {
  for (size_t dim = 2; dim < from.sizes.size(); ++dim) {
    int64_t before = from.sizes[dim], after = to.sizes[dim];
    Move::Along along{.dim = dim, .scale = static_cast<double>(before) / static_cast<double>(after)};
    const ir::Attribute* given = ir::constant(node, scales + dim - 2);
    if (!given) return false;
    if (const auto* factor = std::get_if<double>(given); factor && *factor > 0) along.scale = 1 / *factor;
    else if (!factor && !std::holds_alternative<ir::None>(*given)) return false;
    if (out.kind == Kind::linear) {
      const auto* by_corners = ir::constant<bool>(node, 2);
      if (!by_corners) return false;
      along.by_corners = *by_corners;
      if (*by_corners) along.scale = after > 1 ? static_cast<double>(before - 1) / static_cast<double>(after - 1) : 0;
    } else if (!is_clear(after, along.scale)) {
      return false;
    }
    if (out.kind == Kind::linear || before != after) out.along.push_back(along);
  }
  return true;
}

}  // namespace

std::optional<Move> move_of(const ir::Graph& graph, const ir::Node& node) {
  const auto* spelling = std::find_if(std::begin(kSpellings), std::end(kSpellings), [&](const Spelling& s) { return s.op == node.op; });
  if (spelling == std::end(kSpellings) || !ir::makes_one(graph, node)) return std::nullopt;
  ir::ValueId id = ir::operand(node, 0);
  if (id == ir::kNoValue || graph.values[id].type.sizes.empty()) return std::nullopt;
  const ir::TensorType &to = graph.values[ir::only_result(node)].type, &from = graph.values[id].type;
  if (!has_elements(to) || !has_elements(from) || !has_registers(to.dtype) || from.sizes.size() != to.sizes.size()) return std::nullopt;
  if (spelling->kind == Kind::linear && !ir::is_floating(to.dtype)) return std::nullopt;
  Move out{.kind = spelling->kind, .source = {id, from.strides}};
  bool is_known = false;
  if (spelling->scales) is_known = add_resized(node, from, to, spelling->scales, out);
  else if (out.kind == Kind::flip || out.kind == Kind::roll) is_known = add_listed(node, from, out);
  else is_known = add_padded(node, from, out);
  if (!is_known) return std::nullopt;
  for (size_t d = 0; d < from.sizes.size(); ++d)
    if (from.sizes[d] == 1) out.source.strides[d] = 0;
  for (Move::Along& along : out.along) {
    along.extent = from.sizes[along.dim];
    along.step = out.source.strides[along.dim];
    out.source.strides[along.dim] = 0;
  }
  return out;
}

}  // namespace tenon::ops
