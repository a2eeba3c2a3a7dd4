// Types of tensors: element type, sizes, strides and storage offset.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/size.h"

namespace tenon::ir {

enum class DType : uint8_t {
#define TENON_DTYPE(name, text, torch_name, size) name,
#include "ir/graph/dtypes.def"
#undef TENON_DTYPE
};

const char* dtype_name(DType dtype);
bool dtype_from_name(const std::string& text, DType& out);
int64_t dtype_size(DType dtype);
bool is_floating(DType dtype);
bool is_integer(DType dtype);  // False for bool.
bool is_complex(DType dtype);

// The type of a tensor at run time: all sizes are numbers.
struct FixedType {
  DType dtype = DType::f32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;  // Storage offset of the first element; `aten::as_strided` counts from it.

  bool operator==(const FixedType&) const = default;
};

// The type of a value in a graph.
struct TensorType {
  DType dtype = DType::f32;
  SizeList sizes;
  SizeList strides;
  Size offset = 0;

  TensorType() = default;
  TensorType(DType element, SizeList size_list, SizeList stride_list, Size first = 0)
      : dtype(element), sizes(std::move(size_list)), strides(std::move(stride_list)), offset(first) {}
  TensorType(const FixedType& type) : TensorType(type.dtype, type.sizes, type.strides, type.offset) {}

  FixedType at(const SymbolValues& symbols) const { return {dtype, sizes.values(symbols), strides.values(symbols), offset.value(symbols)}; }
  FixedType fixed() const { return {dtype, sizes.numbers(), strides.numbers(), offset.number()}; }  // Throws InternalError for symbols.
  bool operator==(const TensorType&) const = default;
};
bool same(const TensorType& a, const TensorType& b);

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes);
SizeList contiguous_strides(const SizeList& sizes);
// Number of storage elements up to the tensor's last element.
int64_t extent_of(const FixedType& type);
Size extent_of(const TensorType& type);

}  // namespace tenon::ir
