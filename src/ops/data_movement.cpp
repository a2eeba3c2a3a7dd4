#include "ops/data_movement.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ir/graph/node.h"
#include "ops/lowerable.h"

namespace tenon::ops {
namespace {

using Kind = DataMovement::Kind;

// An op, its kind of data movement, and for resizing ops the index of the first scale argument.
struct MovementOp {
  std::string_view op;
  Kind kind;
  size_t scales = 0;
};
constexpr MovementOp kOps[] = {
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

bool add_listed(const ir::Node& node, const ir::TensorType& from, DataMovement& out) {
  auto rank = static_cast<int64_t>(from.sizes.size());
  bool rolls = out.kind == Kind::roll;
  auto shifts = rolls ? ir::integers(node, 1) : std::nullopt, dims = ir::integers(node, rolls ? 2 : 1);
  if (!dims || (rolls && (!shifts || shifts->size() != dims->size()))) return false;
  for (size_t i = 0; i < dims->size(); ++i) {
    auto dim = static_cast<size_t>((*dims)[i] < 0 ? (*dims)[i] + rank : (*dims)[i]);
    if (std::any_of(out.moved_dims.begin(), out.moved_dims.end(), [&](const DataMovement::MovedDim& a) { return a.dim == dim; }))
      return false;
    if (!from.sizes[dim].is_number()) return false;
    int64_t extent = from.sizes[dim].number(), shift = rolls ? (*shifts)[i] % extent : 0;
    out.moved_dims.push_back({.dim = dim, .shift = shift < 0 ? shift + extent : shift});
  }
  return true;
}

// Padding is listed as (before, after) pairs, the last dimension first.
bool add_padded(const ir::Node& node, const ir::TensorType& from, DataMovement& out) {
  // A scalar that may change between runs is a floating-point argument, which does not fit integers.
  if (out.kind == Kind::pad && !ir::is_floating(from.dtype) && ir::scalar_in(node.args[2]) != ir::kNoScalar) return false;
  auto padding = ir::integers(node, 1);
  if (!padding || padding->size() > 2 * from.sizes.size()) return false;
  for (size_t i = 0; 2 * i + 1 < padding->size(); ++i)
    if ((*padding)[2 * i] != 0 || (*padding)[2 * i + 1] != 0)
      out.moved_dims.push_back({.dim = from.sizes.size() - 1 - i, .shift = (*padding)[2 * i]});
  return true;
}

// ATen computes the nearest index in f32 in some kernels and in the operand's type in others. Returns whether both agree.
bool is_unambiguous(int64_t count, double scale) {
  for (int64_t i = 0; i < count; ++i)
    if (std::floor(static_cast<float>(i) * static_cast<float>(scale)) != std::floor(static_cast<double>(i) * scale)) return false;
  return true;
}

bool add_resized(const ir::Node& node, const ir::TensorType& from, const ir::TensorType& to, size_t scales, DataMovement& out) {
  for (size_t dim = 2; dim < from.sizes.size(); ++dim) {
    if (!from.sizes[dim].is_number() || !to.sizes[dim].is_number()) return false;
    int64_t before = from.sizes[dim].number(), after = to.sizes[dim].number();
    DataMovement::MovedDim moved{.dim = dim, .scale = static_cast<double>(before) / static_cast<double>(after)};
    const ir::Attribute* given = ir::constant(node, scales + dim - 2);
    if (!given) return false;
    if (const auto* factor = std::get_if<double>(given); factor && *factor > 0) moved.scale = 1 / *factor;
    else if (!factor && !std::holds_alternative<ir::None>(*given)) return false;
    if (out.kind == Kind::linear) {
      const auto* align_corners = ir::constant<bool>(node, 2);
      if (!align_corners) return false;
      moved.align_corners = *align_corners;
      if (*align_corners) moved.scale = after > 1 ? static_cast<double>(before - 1) / static_cast<double>(after - 1) : 0;
    } else if (!is_unambiguous(after, moved.scale)) {
      return false;
    }
    if (out.kind == Kind::linear || before != after) out.moved_dims.push_back(moved);
  }
  return true;
}

}  // namespace

std::optional<DataMovement> data_movement_of(const ir::Graph& graph, const ir::Node& node) {
  const auto* op = std::find_if(std::begin(kOps), std::end(kOps), [&](const MovementOp& s) { return s.op == node.op; });
  if (op == std::end(kOps) || !ir::makes_one(graph, node)) return std::nullopt;
  ir::ValueId id = ir::operand(node, 0);
  if (id == ir::kNoValue || graph.values[id].type.sizes.empty()) return std::nullopt;
  const ir::TensorType &to = graph.values[ir::only_result(node)].type, &from = graph.values[id].type;
  if (!has_elements(to) || !has_elements(from) || !has_registers(to.dtype) || from.sizes.size() != to.sizes.size()) return std::nullopt;
  if (op->kind == Kind::linear && !ir::is_floating(to.dtype)) return std::nullopt;
  DataMovement out{.kind = op->kind, .source = {id, from.strides}};
  bool is_supported = false;
  if (op->scales) is_supported = add_resized(node, from, to, op->scales, out);
  else if (out.kind == Kind::flip || out.kind == Kind::roll) is_supported = add_listed(node, from, out);
  else is_supported = add_padded(node, from, out);
  if (!is_supported) return std::nullopt;
  for (size_t d = 0; d < from.sizes.size(); ++d)
    if (from.sizes[d] == 1) out.source.strides[d] = 0;
  for (DataMovement::MovedDim& moved : out.moved_dims) {
    const ir::Size &extent = from.sizes[moved.dim], &step = out.source.strides[moved.dim];
    if (!extent.is_number() || !to.sizes[moved.dim].is_number() || !step.is_number()) return std::nullopt;
    moved.extent = extent.number();
    moved.step = step.number();
    out.source.strides[moved.dim] = 0;
  }
  return out;
}

}  // namespace tenon::ops
