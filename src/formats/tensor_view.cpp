#include "formats/tensor_view.h"

namespace tenon::formats {
namespace {

struct DtypeInfo {
  const char* name;
  unsigned bits;
};

constexpr DtypeInfo kDtypes[] = {
#define TENON_DTYPE(name, bits) {#name, bits},
#include "formats/dtypes.def"
#undef TENON_DTYPE
};

}  // namespace

const char* dtype_name(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }
unsigned dtype_bits(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].bits; }

std::optional<Dtype> dtype_of(std::string_view name) {
  for (size_t i = 0; i < std::size(kDtypes); ++i)
    if (name == kDtypes[i].name) return static_cast<Dtype>(i);
  return std::nullopt;
}

std::optional<uint64_t> byte_size(Dtype dtype, std::span<const int64_t> shape) {
  uint64_t count = 1;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(size), &count)) return std::nullopt;
  if (__builtin_mul_overflow(count, uint64_t{dtype_bits(dtype)}, &count) || count % 8 != 0) return std::nullopt;
  return count / 8;
}

}  // namespace tenon::formats
