#include "capture/shapes.h"

#include <ATen/ExpandUtils.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "bridge/convert.h"
#include "capture/listener.h"
#include "capture/own_shapes.h"
#include "capture/storage_values.h"

namespace tenon::capture {
namespace {

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

}  // namespace

std::optional<Geometries> infer_results(const TapeOp& op) {
  std::string name = op_name(op.op);
  if (ShapeFunction rule = own_shape_rule(name)) return rule(op);
  if (may_convert_strided(op)) return std::nullopt;
  const char* other = meta_substitute(name);
  auto results = MetaRun().run(op, other ? bridge::find_op(other) : op.op);
  return results && kernel_accepts(op, name, *results) ? results : std::nullopt;
}

namespace {

// Returns whether the rule gives the geometry that the recorded run had.
bool holds_for(const TapeOp& recorded) {
  auto inferred = infer_results(recorded);
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

bool has_shape_rule(const TapeOp& recorded) {
  return recorded.shape_rule.holds([&] { return holds_for(recorded); });
}

}  // namespace tenon::capture
