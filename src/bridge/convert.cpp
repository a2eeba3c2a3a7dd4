#include "bridge/convert.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/ScalarType.h>

#include "base/error.h"

namespace tenon::bridge {
namespace {

template <class T>
at::Tensor filled(at::ScalarType type, T number) {
  at::Tensor tensor = at::detail::empty_cpu({}, type);
  switch (type) {
#define TENON_CASE(cpp, name)                                    \
  case at::ScalarType::name:                                     \
    *tensor.mutable_data_ptr<cpp>() = c10::convert<cpp>(number); \
    break;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(TENON_CASE)
#undef TENON_CASE
    default:
      break;
  }
  return tensor;
}

}  // namespace

bool has_dtype(at::ScalarType type) {
  switch (type) {
#define TENON_DTYPE(name, text, torch_name, size) case at::ScalarType::torch_name:
#include "ir/graph/dtypes.def"
#undef TENON_DTYPE
    return true;
    default:
      return false;
  }
}

ir::DType to_dtype(at::ScalarType type) {
  switch (type) {
#define TENON_DTYPE(name, text, torch_name, size) \
  case at::ScalarType::torch_name:                \
    return ir::DType::name;
#include "ir/graph/dtypes.def"
#undef TENON_DTYPE
    default:
      throw InternalError(std::string("no element type for ") + at::toString(type));
  }
}

at::ScalarType from_dtype(ir::DType dtype) {
  switch (dtype) {
#define TENON_DTYPE(name, text, torch_name, size) \
  case ir::DType::name:                           \
    return at::ScalarType::torch_name;
#include "ir/graph/dtypes.def"
#undef TENON_DTYPE
  }
  throw InternalError("unknown element type");
}

ir::ScalarTensor to_scalar_tensor(const at::Tensor& tensor, bool plain) {
  ir::ScalarTensor number;
  auto type = tensor.scalar_type();
  number.dtype = to_dtype(type);
  number.plain = plain;
  switch (type) {
#define TENON_CASE(cpp, name)                                                          \
  case at::ScalarType::name: {                                                         \
    cpp raw = *tensor.const_data_ptr<cpp>();                                           \
    if (type == at::kBool) number.number = static_cast<bool>(c10::convert<bool>(raw)); \
    else if (at::isComplexType(type)) {                                                \
      auto c = c10::convert<c10::complex<double>>(raw);                                \
      number.number = std::complex<double>(c.real(), c.imag());                        \
    } else if (at::isFloatingType(type)) number.number = c10::convert<double>(raw);    \
    else number.number = ir::Size(c10::convert<int64_t>(raw));                         \
    break;                                                                             \
  }
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(TENON_CASE)
#undef TENON_CASE
    default:
      break;
  }
  return number;
}

at::Tensor from_scalar_tensor(const ir::ScalarTensor& number, const ir::SymbolValues& symbols) {
  auto type = from_dtype(number.dtype);
  at::Tensor tensor = std::visit(
      [&](auto n) -> at::Tensor {
        if constexpr (std::is_same_v<decltype(n), std::complex<double>>) return filled(type, c10::complex<double>(n.real(), n.imag()));
        else if constexpr (std::is_same_v<decltype(n), ir::Scalar>) throw InternalError("a free scalar without a value");
        else if constexpr (std::is_same_v<decltype(n), ir::Size>) return filled(type, n.value(symbols));
        else return filled(type, n);
      },
      number.number);
  if (!number.plain) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

std::optional<ir::Attribute> to_attribute(const c10::IValue& value, std::vector<c10::IValue>& resources) {
  if (value.isNone()) return ir::None{};
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return value.toInt();
  if (value.isDouble()) return value.toDouble();
  if (value.isComplexDouble()) {
    auto c = value.toComplexDouble();
    return std::complex<double>(c.real(), c.imag());
  }
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return ir::Device{value.toDevice().str()};
  if (value.isIntList()) return value.toIntVector();
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isBoolList()) {
    auto list = value.toBoolList();
    return std::vector<bool>(list.begin(), list.end());
  }
  if (value.isList() && value.toListRef().empty()) return std::vector<int64_t>();
  if (value.isGenerator()) {
    for (size_t i = 0; i < resources.size(); ++i)
      if (resources[i].toGenerator() == value.toGenerator()) return ir::Resource{static_cast<int32_t>(i)};
    resources.push_back(value);
    return ir::Resource{static_cast<int32_t>(resources.size() - 1)};
  }
  return std::nullopt;
}

c10::IValue from_attribute(const ir::Attribute& attribute, const c10::Type& type, const std::vector<c10::IValue>& resources,
                           const ir::SymbolValues& symbols) {
  struct Visitor {
    const c10::Type& type;
    const std::vector<c10::IValue>& resources;
    const ir::SymbolValues& symbols;
    c10::IValue operator()(const ir::None&) const { return {}; }
    c10::IValue operator()(bool flag) const { return flag; }
    c10::IValue operator()(const ir::Size& number) const { return number.value(symbols); }
    c10::IValue operator()(double number) const { return number; }
    c10::IValue operator()(const std::complex<double>& c) const { return c10::complex<double>(c.real(), c.imag()); }
    c10::IValue operator()(const std::string& text) const { return text; }
    c10::IValue operator()(const ir::Device& device) const { return c10::Device(device.name); }
    c10::IValue operator()(const ir::Resource& r) const { return resources.at(r.index); }
    c10::IValue operator()(const ir::Scalar&) const { throw InternalError("a free scalar without a value"); }
    c10::IValue operator()(const ir::SizeList& list) const {
      if (list.empty() && type.str().find("Tensor") != std::string::npos) return c10::List<at::Tensor>();
      return list.values(symbols);
    }
    c10::IValue operator()(const std::vector<double>& list) const { return list; }
    c10::IValue operator()(const std::vector<bool>& list) const {
      c10::List<bool> out;
      for (bool item : list) out.push_back(item);
      return out;
    }
    c10::IValue operator()(const std::vector<std::string>& list) const { return list; }
    c10::IValue operator()(const ir::ScalarTensor& number) const { return from_scalar_tensor(number, symbols); }
  };
  return std::visit(Visitor{type, resources, symbols}, attribute);
}

c10::OperatorHandle find_op(const std::string& name) {
  size_t space = name.find("::");
  size_t dot = name.find('.', space == std::string::npos ? 0 : space);
  auto op = c10::Dispatcher::singleton().findSchema({name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
  if (!op) throw InternalError("this libtorch has no op " + name);
  return *op;
}

at::Tensor empty_of(const ir::FixedType& type) {
  auto dtype = from_dtype(type.dtype);
  if (type.offset == 0) return at::detail::empty_strided_cpu(type.sizes, type.strides, dtype);
  at::Tensor flat = at::detail::empty_cpu({ir::extent_of(type)}, dtype);
  return flat.as_strided(type.sizes, type.strides, type.offset);
}

at::Tensor tensor_at(void* memory, const ir::FixedType& type) {
  auto bytes = static_cast<size_t>(ir::extent_of(type) * ir::dtype_size(type.dtype));
  return tensor_in({c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(memory, c10::kCPU)}, type);
}

at::Tensor tensor_in(c10::Storage storage, const ir::FixedType& type) {
  auto dtype = c10::scalarTypeToTypeMeta(from_dtype(type.dtype));
  auto out = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
  out.unsafeGetTensorImpl()->set_sizes_and_strides(type.sizes, type.strides, type.offset);
  return out;
}

void copy_elements(at::Tensor from, at::Tensor to) {
  // ATen refuses to copy into expanded dimensions, so they are narrowed to one element.
  for (int64_t d = 0; d < from.dim(); ++d)
    if (to.size(d) > 1 && to.stride(d) == 0) {
      from = from.narrow(d, 0, 1);
      to = to.narrow(d, 0, 1);
    }
  to.copy_(from);
}

at::Tensor copy_keeping_layout(const at::Tensor& tensor) {
  ir::FixedType type{to_dtype(tensor.scalar_type()), tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset()};
  at::Tensor copy = empty_of(type);
  copy_elements(tensor, copy);
  return copy;
}

}  // namespace tenon::bridge
