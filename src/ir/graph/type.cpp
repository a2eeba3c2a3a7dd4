#include "ir/graph/type.h"

namespace tenon::ir {

const char* dtype_name(DType dtype) {
  switch (dtype) {
#define TENON_DTYPE(name, text, torch_name, size) \
  case DType::name:                               \
    return text;
#include "ir/graph/dtypes.def"
#undef TENON_DTYPE
  }
  return "?";
}

bool dtype_from_name(const std::string& text, DType& out) {
#define TENON_DTYPE(name, spelling, torch_name, size) \
  if (text == spelling) {                             \
    out = DType::name;                                \
    return true;                                      \
  }
#include "ir/graph/dtypes.def"
#undef TENON_DTYPE
  return false;
}

int64_t dtype_size(DType dtype) {
  switch (dtype) {
#define TENON_DTYPE(name, text, torch_name, size) \
  case DType::name:                               \
    return size;
#include "ir/graph/dtypes.def"
#undef TENON_DTYPE
  }
  return 0;
}

bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16; }

bool is_integer(DType dtype) {
  return dtype == DType::i64 || dtype == DType::i32 || dtype == DType::i16 || dtype == DType::i8 || dtype == DType::u8;
}

bool is_complex(DType dtype) { return dtype == DType::c64 || dtype == DType::c128; }

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= sizes[i] > 1 ? sizes[i] : 1;
  }
  return strides;
}

// A symbolic size other than 0 and 1 is a factor; 1 changes no product.
SizeList contiguous_strides(const SizeList& sizes) {
  SizeList strides(sizes.size());
  Size step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    if (sizes[i] > 0) step *= sizes[i];
  }
  return strides;
}

int64_t extent_of(const FixedType& type) {
  int64_t extent = type.offset + 1;
  for (size_t d = 0; d < type.sizes.size(); ++d) extent += type.sizes[d] > 0 ? (type.sizes[d] - 1) * type.strides[d] : 0;
  return extent;
}

Size extent_of(const TensorType& type) {
  Size extent = type.offset + 1;
  for (size_t d = 0; d < type.sizes.size(); ++d)
    if (type.sizes[d] > 0) extent += (type.sizes[d] - 1) * type.strides[d];
  return extent;
}

bool same(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && same(a.sizes, b.sizes) && same(a.strides, b.strides) && same(a.offset, b.offset);
}

}  // namespace tenon::ir
