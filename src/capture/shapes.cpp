#include "capture/shapes.h"

#include <ATen/ExpandUtils.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "bridge/convert.h"
#include "capture/listener.h"
#include "capture/storage_values.h"

namespace tenon::capture {
namespace {

using Geometries = std::vector<Geometry>;
using MaybeGeometries = std::optional<Geometries>;

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

const Geometry& operand(const TapeOp& op, size_t i) { return std::get<TensorRef>(op.args[i]).geometry; }

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

using Rule = MaybeGeometries (*)(const TapeOp&);

constexpr std::pair<std::string_view, Rule> kOwnRules[] = {
    {"aten::convolution", &convolution},      {"aten::embedding", &embedding},          {"aten::index_select", &index_select},
    {"aten::native_batch_norm", &batch_norm}, {"aten::native_layer_norm", &layer_norm}, {"aten::where.self", &where},
};

Rule own_rule(const std::string& name) {
  for (const auto& [op, rule] : kOwnRules)
    if (op == name) return rule;
  return nullptr;
}

// An op with a Meta kernel whose results have the same geometry as this op's, or null.
const char* meta_substitute(const std::string& name) {
  if (name == "aten::relu") return "aten::neg";
  if (name == "aten::relu_") return "aten::neg_";
  return nullptr;
}

// Whether the op may convert operands to another type first. ATen converts into temporaries, whose strides it chooses, and the results
// follow these if the operands are not contiguous. Meta kernels convert nothing.
bool may_convert_strided(const TapeOp& op) {
  std::optional<at::ScalarType> type;
  bool converts = false, is_strided = false;
  for_each_operand(op.args, [&](const TensorRef& ref) {
    if (!ref.defined()) return;
    const Geometry& g = ref.geometry;
    converts |= type.value_or(g.dtype) != g.dtype;
    type = g.dtype;
    is_strided |= g.strides != contiguous(g.dtype, g.sizes).strides;
  });
  for (const TapeResult& result : op.results)
    for (const TensorRef& ref : result.items) converts |= type && ref.geometry.dtype != *type && ref.geometry.dtype != at::kBool;
  return converts && is_strided;
}

class MetaRun {
 public:
  // Runs the Meta kernel of `like` with the first arguments of the op.
  std::optional<Geometries> run(const TapeOp& op, const c10::OperatorHandle& like) {
    if (!like.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return std::nullopt;
    for (size_t i = 0; i < like.schema().arguments().size(); ++i) push(op, i);
    try {
      c10::impl::ExcludeDispatchKeyGuard below(keys_above_backends());
      like.callBoxed(&stack_);
    } catch (const std::exception&) {
      return std::nullopt;
    }
    Geometries out;
    for (size_t r = 0; r < op.results.size(); ++r) {
      if (op.results[r].is_list)
        for (const at::Tensor& tensor : stack_[r].toTensorVector()) out.push_back(look(tensor));
      else out.push_back(look(stack_[r].toTensor()));
    }
    return out;
  }

 private:
  static Geometry look(const at::Tensor& tensor) { return tensor.defined() ? geometry_of(tensor) : Geometry{}; }

  at::Tensor shadow(const TensorRef& ref) {
    if (!ref.defined()) return {};
    const Geometry& g = ref.geometry;
    int64_t last = g.offset;
    for (size_t i = 0; i < g.sizes.size(); ++i) last += std::max<int64_t>(g.sizes[i] - 1, 0) * g.strides[i];
    size_t bytes = static_cast<size_t>(last + 1) * c10::elementSize(g.dtype);
    c10::Storage& storage = storages_[ref.storage];
    if (!storage)
      storage = c10::Storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(nullptr, c10::Device(c10::kMeta)),
                             c10::GetAllocator(c10::kMeta), /*resizable=*/true);
    if (storage.nbytes() < bytes) storage.set_nbytes(bytes);
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::Meta),
                                                           c10::scalarTypeToTypeMeta(g.dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(g.sizes, g.strides, g.offset);
    return tensor;
  }

  void push(const TapeOp& op, size_t index) {
    const TapeArgument& arg = op.args[index];
    if (const auto* ref = std::get_if<TensorRef>(&arg)) {
      stack_.emplace_back(shadow(*ref));
    } else if (const auto* number = std::get_if<ir::ScalarTensor>(&arg)) {
      stack_.emplace_back(bridge::from_scalar_tensor(*number));
    } else if (const auto* value = std::get_if<c10::IValue>(&arg)) {
      bool is_device = value->isDevice() || op.op.schema().arguments()[index].name() == "device";
      stack_.push_back(is_device ? c10::IValue(c10::Device(c10::kMeta)) : *value);
    } else if (op.op.schema().arguments()[index].type()->str().find('?') == std::string::npos) {
      c10::List<at::Tensor> list;
      for (const TensorRef& item : std::get<TensorListRef>(arg).items) list.push_back(shadow(item));
      stack_.emplace_back(std::move(list));
    } else {
      c10::List<std::optional<at::Tensor>> list;
      for (const TensorRef& item : std::get<TensorListRef>(arg).items)
        list.push_back(item.defined() ? std::optional(shadow(item)) : std::nullopt);
      stack_.emplace_back(std::move(list));
    }
  }

  Stack stack_;
  std::unordered_map<int32_t, c10::Storage> storages_;
};

// Ops with an operand that must expand to the result, which their Meta kernels do not check.
constexpr std::pair<std::string_view, size_t> kExpandedOperands[] = {
    {"aten::addmm", 0},
    {"aten::addr", 0},
    {"aten::masked_fill_.Scalar", 1},
    {"aten::masked_fill_.Tensor", 1},
    {"aten::floor_divide_.Tensor", 1},
};

// Returns whether the op's kernel accepts the sizes of the operands, if the Meta kernel does.
bool kernel_accepts(const TapeOp& op, const std::string& name, const Geometries& results) {
  auto is_any = [&](std::initializer_list<std::string_view> ops) { return std::find(ops.begin(), ops.end(), name) != ops.end(); };
  for (const auto& [checked, argument] : kExpandedOperands) {
    if (name != checked) continue;
    const auto* ref = std::get_if<TensorRef>(&op.args[argument]);
    return !ref || at::is_expandable_to(ref->geometry.sizes, results[0].sizes);
  }
  if (is_any({"aten::index_put", "aten::index_put_", "aten::_index_put_impl_"})) {
    const auto* values = std::get_if<TensorRef>(&op.args[2]);
    if (!values || numel(values->geometry) == 1) return true;
    auto selected = MetaRun().run(op, bridge::find_op("aten::index.Tensor"));
    return selected && at::is_expandable_to(values->geometry.sizes, (*selected)[0].sizes);
  }
  if (is_any({"aten::put", "aten::put_"})) return numel(operand(op, 1)) == numel(operand(op, 2));
  if (name.rfind("aten::norm.", 0) == 0) return numel(operand(op, 0)) > 0;  // Norms of no element exist for some orders only.
  return true;
}

std::optional<Geometries> infer(const TapeOp& op) {
  std::string name = op_name(op.op);
  if (Rule rule = own_rule(name)) return rule(op);
  if (may_convert_strided(op)) return std::nullopt;
  const char* other = meta_substitute(name);
  auto results = MetaRun().run(op, other ? bridge::find_op(other) : op.op);
  return results && kernel_accepts(op, name, *results) ? results : std::nullopt;
}

// Returns whether the rule gives the geometry that the recorded run had.
bool holds_for(const TapeOp& recorded) {
  auto inferred = infer(recorded);
  if (!inferred) return false;
  size_t next = 0;
  for (const TapeResult& result : recorded.results)
    for (const TensorRef& ref : result.items) {
      if (next >= inferred->size()) return false;
      const Geometry& g = (*inferred)[next++];
      if (ref.defined() && !(g == ref.geometry)) return false;
    }
  return next == inferred->size();
}

}  // namespace

std::optional<Geometries> infer_results(const TapeOp& op, const TapeOp& recorded) {
  if (!recorded.shape_rule.holds([&] { return holds_for(recorded); })) return std::nullopt;
  return infer(op);
}

}  // namespace tenon::capture
