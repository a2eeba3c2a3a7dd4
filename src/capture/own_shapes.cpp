#include "capture/own_shapes.h"

#include <ATen/ExpandUtils.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace tenon::capture {
namespace {

MaybeGeometries embedding(const TapeOp& op) {
  DimList sizes = operand(op, 1).sizes;
  sizes.push_back(operand(op, 0).sizes[1]);
  return Geometries{contiguous(operand(op, 0).dtype, std::move(sizes))};
}

MaybeGeometries index_select(const TapeOp& op) {
  DimList sizes = operand(op, 0).sizes;
  int64_t dim = std::get<c10::IValue>(op.args[1]).toInt();
  if (sizes.empty()) return Geometries{contiguous(operand(op, 0).dtype, sizes)};
  if (dim < 0) dim += static_cast<int64_t>(sizes.size());
  sizes[dim] = operand(op, 2).sizes.empty() ? 1 : operand(op, 2).sizes[0];
  return Geometries{contiguous(operand(op, 0).dtype, std::move(sizes))};
}

// The mean and the reciprocal standard deviation have one element per normalized row.
MaybeGeometries layer_norm(const TapeOp& op) {
  const Geometry& x = operand(op, 0);
  size_t normalized = std::get<c10::IValue>(op.args[1]).toListRef().size();
  DimList rows = x.sizes;
  for (size_t i = rows.size() - normalized; i < rows.size(); ++i) rows[i] = 1;
  at::ScalarType statistics = op.results[1].items[0].geometry.dtype;
  return Geometries{contiguous(x.dtype, x.sizes), contiguous(statistics, rows), contiguous(statistics, rows)};
}

bool is_channels_last(const Geometry& g) {
  return c10::is_channels_last_strides_2d(g.sizes, g.strides) || c10::is_channels_last_strides_3d(g.sizes, g.strides);
}

bool is_contiguous(const Geometry& g) { return !is_channels_last(g) && g.strides == contiguous(g.dtype, g.sizes).strides; }

// Images and weights in the default layout, with a batch dimension.
MaybeGeometries convolution(const TapeOp& op) {
  const Geometry &x = operand(op, 0), &weight = operand(op, 1);
  auto numbers = [&](size_t argument) { return std::get<c10::IValue>(op.args[argument]).toIntVector(); };
  std::vector<int64_t> stride = numbers(3), padding = numbers(4), dilation = numbers(5);
  bool is_transposed = std::get<c10::IValue>(op.args[6]).toBool();
  size_t spatial = x.sizes.size() - 2;
  if (is_transposed || weight.sizes.size() != x.sizes.size() || stride.size() != spatial || padding.size() != spatial ||
      dilation.size() != spatial || !is_contiguous(x) || !is_contiguous(weight))
    return std::nullopt;
  DimList sizes = {x.sizes[0], weight.sizes[0]};
  for (size_t d = 0; d < spatial; ++d) {
    int64_t room = x.sizes[d + 2] + 2 * padding[d] - dilation[d] * (weight.sizes[d + 2] - 1) - 1;
    if (room < 0) return std::nullopt;
    sizes.push_back(room / stride[d] + 1);
  }
  return Geometries{contiguous(x.dtype, std::move(sizes))};
}

// The statistics have one element per channel, or none in evaluation.
MaybeGeometries batch_norm(const TapeOp& op) {
  const Geometry& x = operand(op, 0);
  bool is_training = std::get<c10::IValue>(op.args[5]).toBool();
  if (!is_contiguous(x) || x.sizes.size() < 2) return std::nullopt;
  DimList channels = {is_training ? x.sizes[1] : 0};
  at::ScalarType statistics = op.results[1].items[0].geometry.dtype;
  return Geometries{contiguous(x.dtype, x.sizes), contiguous(statistics, channels), contiguous(statistics, channels)};
}

// Operands in the default layout, broadcast against each other. TensorIterator keeps the order of dimensions then.
MaybeGeometries where(const TapeOp& op) {
  DimList sizes;
  for (const TapeArgument& argument : op.args) {
    const auto* ref = std::get_if<TensorRef>(&argument);
    if (!ref) continue;
    const Geometry& g = ref->geometry;
    if (!is_contiguous(g)) return std::nullopt;
    if (g.sizes.size() > sizes.size()) sizes.insert(sizes.begin(), g.sizes.size() - sizes.size(), 1);
    size_t first = sizes.size() - g.sizes.size();
    for (size_t d = 0; d < g.sizes.size(); ++d) {
      int64_t& size = sizes[first + d];
      if (size != g.sizes[d] && size != 1 && g.sizes[d] != 1) return std::nullopt;
      if (size == 1) size = g.sizes[d];
    }
  }
  return Geometries{contiguous(op.results[0].items[0].geometry.dtype, std::move(sizes))};
}

bool is_default(const Geometry& g) { return g.strides == contiguous(g.dtype, g.sizes).strides; }

bool has_elements(const Geometry& g) {
  return std::none_of(g.sizes.begin(), g.sizes.end(), [](int64_t size) { return size == 0; });
}

// Geometry{} for results that the op's mask of outputs leaves undefined.
Geometry unless_undefined(const TapeOp& op, size_t result, Geometry g) {
  return op.results[result].items[0].defined() ? std::move(g) : Geometry{};
}

// Queries, keys and values of [batch, heads, length, width]. The kernel does not check all of these sizes itself.
bool are_attention_operands(const TapeOp& op, size_t query, size_t mask) {
  const Geometry &q = operand(op, query), &k = operand(op, query + 1), &v = operand(op, query + 2);
  if (q.sizes.size() != 4 || k.sizes.size() != 4 || k.sizes != v.sizes) return false;
  if (q.sizes[0] != k.sizes[0] || q.sizes[1] != k.sizes[1] || q.sizes[3] != k.sizes[3] || !has_elements(q) || !has_elements(k))
    return false;
  const auto* added = std::get_if<TensorRef>(&op.args[mask]);
  return !added || !added->defined() ||
         at::is_expandable_to(added->geometry.sizes, DimList{q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]});
}

// A new tensor of [batch, heads, length, ...] whose memory has the order [batch, length, heads, ...].
Geometry heads_inside(at::ScalarType dtype, DimList sizes) {
  std::swap(sizes[1], sizes[2]);
  Geometry g = contiguous(dtype, std::move(sizes));
  std::swap(g.sizes[1], g.sizes[2]);
  std::swap(g.strides[1], g.strides[2]);
  return g;
}

// The result has the query's layout.
MaybeGeometries flash_attention(const TapeOp& op) {
  const Geometry& q = operand(op, 0);
  if (!are_attention_operands(op, 0, /*mask=*/5)) return std::nullopt;
  Geometry out = q;
  out.offset = 0;
  if (!is_default(q) && q.strides != heads_inside(q.dtype, q.sizes).strides) return std::nullopt;
  at::ScalarType statistics = op.results[1].items[0].geometry.dtype;
  return Geometries{std::move(out), heads_inside(statistics, {q.sizes[0], q.sizes[1], q.sizes[2]})};
}

MaybeGeometries flash_attention_backward(const TapeOp& op) {
  if (!are_attention_operands(op, 1, /*mask=*/8) || operand(op, 0).sizes != operand(op, 1).sizes) return std::nullopt;
  Geometries out;
  for (size_t i = 1; i <= 3; ++i) out.push_back(heads_inside(operand(op, i).dtype, operand(op, i).sizes));
  return out;
}

MaybeGeometries layer_norm_backward(const TapeOp& op) {
  const Geometry& x = operand(op, 1);
  if (operand(op, 0).sizes != x.sizes) return std::nullopt;
  auto parameter = [&](size_t argument, size_t result) {
    const auto* ref = std::get_if<TensorRef>(&op.args[argument]);
    return ref && ref->defined() ? unless_undefined(op, result, contiguous(ref->geometry.dtype, ref->geometry.sizes)) : Geometry{};
  };
  return Geometries{unless_undefined(op, 0, contiguous(x.dtype, x.sizes)), parameter(5, 1), parameter(6, 2)};
}

MaybeGeometries embedding_backward(const TapeOp& op) {
  const Geometry& gradient = operand(op, 0);
  DimList rows = operand(op, 1).sizes;
  if (gradient.sizes.empty()) return std::nullopt;
  int64_t width = gradient.sizes.back();
  rows.push_back(width);
  if (gradient.sizes != rows) return std::nullopt;
  return Geometries{contiguous(gradient.dtype, {std::get<c10::IValue>(op.args[2]).toInt(), width})};
}

// Images and their gradients in the default layout.
MaybeGeometries batch_norm_backward(const TapeOp& op) {
  const Geometry &gradient = operand(op, 0), &x = operand(op, 1);
  if (gradient.sizes != x.sizes || !is_contiguous(x) || !is_contiguous(gradient) || x.sizes.size() < 2) return std::nullopt;
  Geometries out = {unless_undefined(op, 0, contiguous(x.dtype, x.sizes))};
  for (size_t r = 1; r < 3; ++r) out.push_back(unless_undefined(op, r, contiguous(op.results[r].items[0].geometry.dtype, {x.sizes[1]})));
  return out;
}

constexpr std::pair<std::string_view, ShapeFunction> kRules[] = {
    {"aten::_scaled_dot_product_flash_attention_for_cpu", &flash_attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", &flash_attention_backward},
    {"aten::convolution", &convolution},
    {"aten::embedding", &embedding},
    {"aten::embedding_dense_backward", &embedding_backward},
    {"aten::index_select", &index_select},
    {"aten::native_batch_norm", &batch_norm},
    {"aten::native_batch_norm_backward", &batch_norm_backward},
    {"aten::native_layer_norm", &layer_norm},
    {"aten::native_layer_norm_backward", &layer_norm_backward},
    {"aten::where.self", &where},
};

}  // namespace

Geometry contiguous(at::ScalarType dtype, DimList sizes) {
  Geometry g;
  g.dtype = dtype;
  g.strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    g.strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  g.sizes = std::move(sizes);
  return g;
}

ShapeFunction own_shape_rule(const std::string& name) {
  for (const auto& [op, rule] : kRules)
    if (op == name) return rule;
  return nullptr;
}

}  // namespace tenon::capture
